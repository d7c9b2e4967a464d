"""PostgreSQL as a child of our own: loopback TCP only, never as root, on a data folder that survives any end."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import psutil
import psycopg

from stack.account import Account, account_for
from stack.child import POLL_SECONDS, Child, Command, Files, Stopping, end, tethered
from stack.errors import StackError
from stack.ports import LOOPBACK, require_free
from stack.postgres_binaries import binaries

SUPERUSER = "postgres"
# The server's account may not be allowed through the parents of its data folder (a checkout under /root). The kernel's
# own link to the current folder needs no walk through them, in the server and in every process it forks.
DATA = "/proc/self/cwd"
FAST_SHUTDOWN = Stopping(signal.SIGINT, grace_seconds=20.0)
OCCUPIED_WAIT_SECONDS = 20.0
# Details and statements of errors quote rows, and rows hold personal data; the log is no place for them.
LOGGING = {"log_error_verbosity": "terse", "log_min_error_statement": "panic", "timezone": "UTC", "log_timezone": "UTC"}
# A killed server still keeps what it committed: only a power cut, or the machine, can lose it.
HASTY = {"fsync": "off", "full_page_writes": "off"}
ACCESS = f"host all all {LOOPBACK}/32 scram-sha-256\n"


class InitdbFailed(StackError):
    """initdb refused. Permitted next action: mend what it says, start again."""


class PasswordRefused(StackError):
    """The data was made with another password. Permitted next action: restore secrets.env, or remove the data."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(f"the database in {data_dir} was made with another password than the one now in secrets.env")
        self.data_dir = data_dir


@dataclass(frozen=True)
class PostgresSettings:
    """`durable` off trades safety after a power cut for speed, which suits tests only."""

    password: str = field(repr=False)
    durable: bool = True
    max_connections: int = 200
    port_setting: str = "COUNTERFOIL_POSTGRES_PORT"


class EmbeddedPostgres:
    """Start, stop and restart after any kind of end. Raises PortTaken, InitdbFailed, PasswordRefused, ChildNotReady."""

    def __init__(self, data_dir: Path, port: int, settings: PostgresSettings, files: Files | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.settings = settings
        self.child = Child("postgres", self._prepare, files or Files.of(self.data_dir.parent, "postgres"))
        self.child.stopping = FAST_SHUTDOWN
        self.child.ready = self._ready
        self.child.reclaim = lambda: end_occupants(self.data_dir)

    def start(self) -> None:
        self.child.start()

    def stop(self) -> None:
        self.child.stop()

    def kill(self) -> None:
        """SIGKILL to the server itself, as a crash would be."""
        self.child.kill()

    def dsn(self, database: str = "postgres") -> str:
        """Where the superuser connects."""
        return f"postgresql://{SUPERUSER}:{self.settings.password}@{LOOPBACK}:{self.port}/{database}"

    def _prepare(self) -> Command:
        require_free(self.port, self.settings.port_setting)
        account = account_for(self.data_dir)
        programs = binaries(account)
        if not self.data_dir.exists():
            self._create(programs, account)
        # Without any server in the folder the file is a leftover; its pid may by now be somebody else's.
        (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
        return _command((str(programs / "postgres"), "-D", _data(self.data_dir), *self._options()), self.data_dir)

    def _options(self) -> Iterator[str]:
        options = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": str(self.settings.max_connections),
            **LOGGING,
            **({} if self.settings.durable else HASTY),
        }
        for name, value in options.items():
            yield from ("-c", f"{name}={value}")

    def _create(self, programs: Path, account: Account | None) -> None:
        """Under another name first: an initdb that was cut off leaves nothing that looks like a database."""
        made = self.data_dir.with_name(self.data_dir.name + ".new")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700, parents=True)
        if account:
            os.chown(made, account.uid, account.gid)
        with tempfile.TemporaryFile() as password:
            _hand_over(password, self.settings.password, account)
            _initdb(programs, made, password, self.settings.durable)
        (made / "pg_hba.conf").write_text(ACCESS)
        made.rename(self.data_dir)

    def _ready(self) -> bool:
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise PasswordRefused(self.data_dir) from None
            return False
        return True


def end_occupants(data_dir: Path) -> None:
    """Ends a server that still works on this data and waits until its last process has left the folder."""
    for server in _servers(data_dir):
        end(server, FAST_SHUTDOWN)
    deadline = time.monotonic() + OCCUPIED_WAIT_SECONDS
    while list(occupants(data_dir)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for straggler in occupants(data_dir):
        end(straggler, Stopping(signal.SIGQUIT, grace_seconds=5.0))


def occupants(data_dir: Path) -> Iterator[psutil.Process]:
    """PostgreSQL processes whose current folder is this one, as it is for the server and all it forks."""
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and os.path.samefile(process.cwd(), data_dir):
                yield process
        except (psutil.Error, OSError):
            continue


def _servers(data_dir: Path) -> list[psutil.Process]:
    """The occupants that no other occupant started."""
    found = {process.pid: process for process in occupants(data_dir)}
    return [process for process in found.values() if _parent(process) not in found]


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _data(data_dir: Path) -> str:
    return DATA if sys.platform == "linux" else str(data_dir)


def _command(argv: tuple[str, ...], data_dir: Path) -> Command:
    return Command(argv, {"LC_ALL": "C", "PATH": os.defpath}, data_dir, account_for(data_dir), FAST_SHUTDOWN.by)


def _initdb(programs: Path, data_dir: Path, password: BinaryIO, durable: bool) -> None:
    locale = ("--encoding=UTF8", "--locale=C")
    access = (f"--username={SUPERUSER}", "--pwfile=/dev/stdin", "--auth=scram-sha-256")
    sync = () if durable else ("--no-sync",)
    command = _command((str(programs / "initdb"), "-D", _data(data_dir), *locale, *access, *sync), data_dir)
    done = subprocess.run(
        tethered(command),
        cwd=data_dir,
        env=dict(command.environment),
        stdin=password,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise InitdbFailed(done.stderr.decode(errors="replace").strip())


def _hand_over(file: BinaryIO, text: str, account: Account | None) -> None:
    """Linux opens /dev/stdin anew, with the opener's rights: the nameless file must be the account's own."""
    file.write(text.encode())
    file.flush()
    file.seek(0)
    if account:
        os.fchown(file.fileno(), account.uid, account.gid)
