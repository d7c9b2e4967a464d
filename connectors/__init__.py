"""One adapter per CRM or provider: requests out, answers in as signals, and what its API allows when one is lost."""
