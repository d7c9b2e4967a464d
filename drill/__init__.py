"""PROVES  every contract at every point: a process killed or cut there, and what stands at the end.

Its provider is the sandbox's practice provider, whose modes each break another promise.
"""
