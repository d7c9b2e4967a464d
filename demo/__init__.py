"""SHOWS: one partner onboarding told from outside, through the doors that people and services have."""
