"""DECIDES: states, identity, approvals, permits and recovery as pure functions over frozen values."""
