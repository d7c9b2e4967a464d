"""REPAIRS: the periodic pass that makes every lost hint good, under a lease, also with the engine away."""
