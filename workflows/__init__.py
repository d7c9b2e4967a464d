"""WAITS: one workflow per process, over a kernel that holds everything hard once."""
