"""ASKS: the `counterfoil` command. It parses, calls the use cases that the gateway calls, and prints."""
