"""ACTS: thin activities that load, decide and save. The store and the connectors are handed to them by worker.py."""
