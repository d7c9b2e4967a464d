"""The unprivileged account that PostgreSQL runs under, since it refuses to run as root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

UNPRIVILEGED_USER = "nobody"


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


def account_for(folder: Path) -> Account | None:
    """Whom to become for work in `folder`; None when we may stay who we are (not root)."""
    if os.geteuid() != 0:
        return None
    return _owner(folder) or _unprivileged()


def _owner(folder: Path) -> Account | None:
    """The folder's owner: data made by an ordinary user stays that user's when root starts it later."""
    if not folder.exists():
        return None
    status = folder.stat()
    return Account(status.st_uid, status.st_gid) if status.st_uid != 0 else None


def _unprivileged() -> Account:
    # initdb looks the user up by name, so an arbitrary free number would not do.
    entry = pwd.getpwnam(UNPRIVILEGED_USER)
    return Account(entry.pw_uid, entry.pw_gid)
