"""PostgreSQL as our own child: whom it runs as, what it survives, what it leaves alone."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from stack.account import account_for
from stack.child import Command, Files, launch
from stack.files import CHECKOUT
from stack.ports import LOOPBACK, PortTaken, free_port
from stack.postgres import EmbeddedPostgres, PasswordRefused, PostgresSettings, occupants
from stack.postgres_binaries import NEEDED, WHEEL

SETTINGS = PostgresSettings(password="server-secret", durable=False)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Under parents that only their owner may enter, as a checkout in root's home is."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    return closed / "checkout" / "data"


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data_dir, free_port(), SETTINGS)
    server.start()
    yield server
    server.stop()


def test_it_never_runs_as_root(server: EmbeddedPostgres) -> None:
    assert {process.uids().real for process in occupants(server.data_dir)} == {server.data_dir.stat().st_uid}
    assert server.data_dir.stat().st_uid != 0


def test_it_changes_no_permission_outside_its_own_folder(tmp_path: Path, data_dir: Path) -> None:
    data_dir.parent.mkdir(mode=0o700)
    strangers = [*data_dir.parents, *_wheel().parents, *_wheel().rglob("*")]
    before = _permissions(strangers)
    server = EmbeddedPostgres(data_dir, free_port(), SETTINGS)
    server.start()
    server.stop()
    assert _permissions(strangers) == before
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_it_runs_from_a_checkout_that_its_account_cannot_reach(tmp_path: Path, data_dir: Path) -> None:
    packages = data_dir.parent / "site-packages"
    for part in NEEDED:
        shutil.copytree(_wheel().parent / part, packages / part)
    (packages / WHEEL / "__init__.py").write_text("raise ImportError('only the binaries are ours to use')")
    before = _permissions([*packages.parents, *packages.rglob("*")])
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        told = {**os.environ, "PYTHONPATH": str(packages), "TMPDIR": reachable}
        script = [sys.executable, "-c", START_AND_STOP, str(data_dir), str(free_port())]
        ran = subprocess.run(script, cwd=CHECKOUT, env=told, capture_output=True, text=True, check=True).stdout.strip()
        place = Path(reachable) if os.geteuid() == 0 else packages
        assert Path(ran).is_relative_to(place)
    assert _permissions([*packages.parents, *packages.rglob("*")]) == before


START_AND_STOP = """
import sys
from pathlib import Path
import psutil
from stack.postgres import EmbeddedPostgres, PostgresSettings
server = EmbeddedPostgres(Path(sys.argv[1]), int(sys.argv[2]), PostgresSettings("server-secret", durable=False))
server.start()
print(psutil.Process(server.child.pid).exe())
server.stop()
"""


def test_what_was_committed_survives_sigkill(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    server.kill()
    server.start()
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_a_recycled_pid_in_the_lock_file_is_not_believed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    server.kill()
    stranger = launch(_sleeper(server.data_dir), tmp_path / "stranger.log")
    lock_file = server.data_dir / "postmaster.pid"
    lock_file.write_text("\n".join([str(stranger.pid), *lock_file.read_text().splitlines()[1:]]))
    server.start()
    assert psutil.pid_exists(stranger.pid)
    stranger.kill()
    stranger.wait()


def test_a_server_that_nobody_looks_after_is_replaced(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """Also when the record of its pid is lost with the supervisor that started it."""
    orphan = psutil.Process(server.child.pid)
    successor = EmbeddedPostgres(server.data_dir, server.port, SETTINGS, Files.of(tmp_path / "elsewhere", "postgres"))
    successor.start()
    try:
        assert not orphan.is_running()
        assert orphan.pid not in {process.pid for process in occupants(server.data_dir)}
    finally:
        successor.stop()


def test_a_taken_port_is_named_and_nothing_is_made(data_dir: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"{port} is taken.*COUNTERFOIL_POSTGRES_PORT") as refused:
            EmbeddedPostgres(data_dir, port, SETTINGS).start()
    assert (refused.value.port, refused.value.setting_name) == (port, "COUNTERFOIL_POSTGRES_PORT")
    assert not data_dir.exists()


def test_another_password_than_the_data_has_is_a_clear_error(server: EmbeddedPostgres) -> None:
    server.stop()
    other = EmbeddedPostgres(server.data_dir, server.port, PostgresSettings("another", durable=False))
    with pytest.raises(PasswordRefused):
        other.start()
    other.stop()


def test_an_initdb_that_was_cut_off_leaves_no_trace(data_dir: Path) -> None:
    half = data_dir.with_name(data_dir.name + ".new")
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18")
    server = EmbeddedPostgres(data_dir, free_port(), SETTINGS)
    server.start()
    server.stop()
    assert not half.exists()


def test_the_log_quotes_no_row(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE partner (iban text PRIMARY KEY)")
        for _ in range(2):
            _insert(connection, "DE02120300000000202051")
    log = server.child.files.log.read_text()
    assert "duplicate key" in log
    assert "DE02120300000000202051" not in log


def _insert(connection: psycopg.Connection, iban: str) -> None:
    try:
        connection.execute(f"INSERT INTO partner VALUES ('{iban}')")
    except psycopg.errors.UniqueViolation:
        return


def _sleeper(folder: Path) -> Command:
    """A stranger under the server's own account, whom the server would take for a rival."""
    return Command(("/bin/sleep", "60"), {}, cwd=Path("/"), account=account_for(folder))


def _wheel() -> Path:
    spec = find_spec(WHEEL)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _permissions(paths: list[Path]) -> dict[Path, tuple[int, int, int]]:
    found = {path: path.lstat() for path in paths}
    return {path: (status.st_mode, status.st_uid, status.st_gid) for path, status in found.items()}
