"""Transactions: short, keyed, repeated when the database says that it is safe."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

T = TypeVar("T")

STORE_AWAY: tuple[type[Exception], ...] = (InterfaceError, InternalError, OperationalError, PoolTimeout)
"""Errors that say the store cannot be reached; any other one is about what was asked of it."""

SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
TRIES = 6
SESSION = (
    "-c timezone=UTC -c statement_timeout=20000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=30000"
)
"""A session that forgets its transaction must not hold the request lock for ever."""


class Store:
    """One process's way into the business store."""

    def __init__(self, url: str, pool: int = 12) -> None:
        self.engine: Engine = create_engine(
            url,
            pool_size=pool,
            max_overflow=0,
            pool_timeout=10,
            hide_parameters=True,
            connect_args={"options": SESSION, "connect_timeout": 5, "application_name": "counterfoil"},
        )
        event.listen(self.engine, "checkout", _refuse_hung_up)

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for reads that all see one instant, nothing is kept."""
        with self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ")

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction and commit.

        `work` must be keyed: it is run again after a serialisation failure, a deadlock or a lost connection, and a
        commit whose answer was lost may have happened. Raises sqlalchemy.exc.DBAPIError after the last try.
        """
        return _repeated(lambda: self._in_transaction(work))

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        with self.engine.begin() as connection:
            return work(connection)

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads at one instant; again when the connection is lost under it."""
        return _repeated(lambda: self._at_one_instant(work))

    def _at_one_instant(self, work: Callable[[Connection], T]) -> T:
        with self.reading() as connection:
            return work(connection)

    def ready(self) -> bool:
        """Whether the database answers."""
        try:
            with self.reading() as connection:
                return bool(connection.execute(text("SELECT true")).scalar_one())
        except (OperationalError, PoolTimeout):
            return False


def _repeated(attempt: Callable[[], T]) -> T:
    for tries_left in reversed(range(TRIES)):
        try:
            return attempt()
        except DBAPIError as refused:
            if not tries_left or not safe_to_repeat(refused):
                raise
            time.sleep(0.05 * 2 ** (TRIES - tries_left))
    raise AssertionError("unreachable")


def _refuse_hung_up(connection: Any, record: object, proxy: object) -> None:  # noqa: ANN401 (the driver's own)
    """A resting connection has nothing to say: what can be read from it is the server's farewell. No round trip."""
    resting = select.poll()
    resting.register(connection.fileno(), select.POLLIN)
    if resting.poll(0):
        raise DisconnectionError("the server ended this connection while it rested")


def safe_to_repeat(refused: DBAPIError) -> bool:
    """A conflict that rolled back, or a connection that went away under keyed work."""
    state = getattr(refused.orig, "sqlstate", None)
    return state in (SERIALIZATION_FAILURE, DEADLOCK) or refused.connection_invalidated or _never_connected(refused)


def _never_connected(refused: DBAPIError) -> bool:
    return isinstance(refused, OperationalError) and getattr(refused.orig, "sqlstate", None) in (None, "57P03")


def violated(refused: DBAPIError) -> str | None:
    """The name of the constraint that refused, for turning one named constraint into a business error."""
    diagnostics = getattr(refused.orig, "diag", None)
    return getattr(diagnostics, "constraint_name", None)
