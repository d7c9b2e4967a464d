"""Becomes another program that ends when its parent does: `tether.py SIGNAL PARENT UID:GID|- PROGRAM [ARGUMENT…]`.

A separate process instead of `preexec_fn`, which is unsafe (and from Python 3.12 a warning) in a process with threads.
Runs with `python -I -S`, so it imports nothing but the standard library.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def become(account: str) -> None:
    uid, gid = (int(part) for part in account.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def die_with_parent(death_signal: int, parent: int) -> None:
    # The kernel forgets this setting when the user id changes, so it comes after `become`.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        sys.exit("the parent ended before its child began")


def main(death_signal: str, parent: str, account: str, *command: str) -> None:
    if account != "-":
        become(account)
    die_with_parent(int(death_signal), int(parent))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
