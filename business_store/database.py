"""Transactions: short, keyed, repeated when the database says that it is safe."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from domain.errors import CommitUnknown

T = TypeVar("T")

STORE_AWAY: tuple[type[Exception], ...] = (InterfaceError, InternalError, OperationalError, PoolTimeout, CommitUnknown)
"""Errors that say the store cannot be reached, or cannot take anything now: unreachable, read-only, full, out of
memory, too slow. Any other one is about what was asked of it."""

SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
READ_ONLY, NO_CONNECTION_NOW, FEATURE_NOT_SUPPORTED = "25006", "57P03", "0A000"
TRIES = 6
SETTLE_TRIES = 40
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
        event.listen(self.engine, "handle_error", _drop_read_only)

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

    def once(self, work: Callable[[Connection], T]) -> T:
        """The same for `work` that has no key of its own: after a lost answer to COMMIT the database is asked.

        Costs a round trip more. Raises CommitUnknown when the database cannot say.
        """
        return _repeated(lambda: self._settled(work))

    def _settled(self, work: Callable[[Connection], T]) -> T:
        done: list[tuple[T, str]] = []

        def noted(connection: Connection) -> None:
            done.append((work(connection), str(connection.execute(TRANSACTION).scalar_one())))

        try:
            self._in_transaction(noted)
        except DBAPIError as lost:
            if not done or not lost.connection_invalidated or not self._committed(done[0][1]):
                raise
        return done[0][0]

    def _committed(self, transaction: str) -> bool:
        for _ in range(SETTLE_TRIES):
            status = self._status(transaction)
            if status != "in progress":
                return status == "committed"
            time.sleep(0.1)
        raise CommitUnknown("the database has not ended this transaction", next_actions=LOOK_FIRST)

    def _status(self, transaction: str) -> str | None:
        try:
            return self.read(lambda connection: connection.execute(STATUS, {"id": transaction}).scalar())
        except (DBAPIError, PoolTimeout):
            raise CommitUnknown("the answer to a commit was lost", next_actions=LOOK_FIRST) from None

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        with self.engine.begin() as connection:
            return work(connection)

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads at one instant; again when the connection is lost under it."""
        return _repeated(lambda: self._at_one_instant(work))

    def _at_one_instant(self, work: Callable[[Connection], T]) -> T:
        with self.reading() as connection:
            return work(connection)

    def ask(self, work: Callable[[Connection], T]) -> T:
        """What one single statement reads, without a transaction around it; again when the connection is lost."""
        return _repeated(lambda: self._by_itself(work))

    def _by_itself(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            return work(connection.execution_options(isolation_level="AUTOCOMMIT"))

    def ready(self) -> bool:
        """Whether the database answers, and takes writes: after a failover it may do only the one."""
        try:
            with self.reading() as connection:
                writable = bool(connection.execute(WRITABLE).scalar_one())
        except STORE_AWAY:
            return False
        if not writable:
            self.engine.dispose()
        return writable


TRANSACTION = text("SELECT pg_current_xact_id()::text")
STATUS = text("SELECT pg_xact_status(cast(cast(:id AS text) AS xid8))")
WRITABLE = text("SELECT current_setting('transaction_read_only') = 'off'")
LOOK_FIRST = ("look whether it was recorded, and repeat it if not",)


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


def _drop_read_only(context: ExceptionContext) -> None:
    """A session that may only read belongs to a server that is not the primary any more, or was not yet when the
    session began: it stays so for ever. It is dropped, and with it every older one; a new one asks who is primary."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def safe_to_repeat(refused: DBAPIError) -> bool:
    """A conflict that rolled back, or a connection that went away under keyed work."""
    state = getattr(refused.orig, "sqlstate", None)
    rolled_back = state in (SERIALIZATION_FAILURE, DEADLOCK) or _replanned(refused)
    return rolled_back or refused.connection_invalidated or _never_connected(refused)


def _replanned(refused: DBAPIError) -> bool:
    """A migration changed what a prepared statement returns; the driver forgets it with the rollback."""
    return getattr(refused.orig, "sqlstate", None) == FEATURE_NOT_SUPPORTED and "cached plan" in str(refused.orig)


def _never_connected(refused: DBAPIError) -> bool:
    state = getattr(refused.orig, "sqlstate", None)
    return isinstance(refused, OperationalError) and state in (None, NO_CONNECTION_NOW)


SAID_BY_STATE = {
    READ_ONLY: ("store_read_only", "the store may only be read now: look for the primary after a failover"),
    "57014": ("store_busy", "the store did not answer in time"),
    "55P03": ("store_busy", "the store held a lock for too long"),
    SERIALIZATION_FAILURE: ("store_busy", "others were in the way each time"),
    DEADLOCK: ("store_busy", "others were in the way each time"),
}
SAID_BY_CLASS = {
    "53": ("store_exhausted", "the store has no room, memory or connections left"),
    "58": ("store_exhausted", "the store's disk does not work"),
    "57": ("store_unreachable", "the store is being shut down or started"),
}


def away_because(problem: Exception) -> tuple[str, str] | None:
    """Code and sentence for an error of STORE_AWAY, the same at every door; None for a refusal of what was asked."""
    if isinstance(problem, PoolTimeout):
        return "store_busy", "all of this process's connections to the store are in use"
    state = getattr(getattr(problem, "orig", None), "sqlstate", None)
    if state is None or (isinstance(problem, DBAPIError) and problem.connection_invalidated and state != READ_ONLY):
        return "store_unreachable", "the store cannot be reached"
    return SAID_BY_STATE.get(state) or SAID_BY_CLASS.get(state[:2])


def violated(refused: DBAPIError) -> str | None:
    """The name of the constraint that refused, for turning one named constraint into a business error."""
    diagnostics = getattr(refused.orig, "diag", None)
    return getattr(diagnostics, "constraint_name", None)
