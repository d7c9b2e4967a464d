"""REMEMBERS: requests, versions, reviews, decisions, runs, events, operations and evidence, in Postgres."""
