"""PRACTISES  every recovery contract, against the sandbox provider whose modes break each promise in turn."""
