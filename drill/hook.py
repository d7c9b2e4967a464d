"""Inside a drilled process: note every point that the run comes to, and do at one of them what was ordered."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import psycopg
from sqlalchemy import Engine

from domain.boundaries import Boundary, Side
from drill.points import Action, Point

STOPPED_WITHIN = 0.1
"""Seconds in which the stop reaches this thread, too, which goes no further before: another one may take the signal."""
ORDER, TRACE, REACHED = "order.json", "trace", "reached"


@dataclass(frozen=True, slots=True)
class Order:
    """What a process of a slot is to do. `number` tells one schedule from the next."""

    number: int
    run_id: str
    action: Action | None
    point: Point | None

    def written(self, folder: Path) -> None:
        """For every process of this folder, also one that is running."""
        point = self.point and [self.point.name, self.point.nth, self.point.side]
        new = folder / "order.new"
        new.write_text(json.dumps([self.number, self.run_id, self.action, point]))
        new.rename(folder / ORDER)

    @classmethod
    def read(cls, folder: Path) -> Order:
        number, run_id, action, point = json.loads((folder / ORDER).read_text())
        return cls(number, run_id, action and Action(action), point and Point(*point))


@dataclass
class _Here:
    """The boundary that this thread or task is in; `lose` is when its connection is to be lost."""

    names: list[str] = field(default_factory=list)
    lose: Action | None = None


_here: ContextVar[_Here | None] = ContextVar("here", default=None)


def _now_here() -> _Here:
    found = _here.get()
    if found is None:
        found = _Here()
        _here.set(found)
    return found


class Hook:
    """The one hook of a process. Its folder is its slot's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trace = os.open(folder / TRACE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = Lock()
        self._order: Order | None = None
        self._stamp = 0
        self._come: Counter[tuple[str, Side]] = Counter()

    def install(self) -> None:
        """From now on every boundary of this process is a pair of points."""
        Boundary.hook = self

    def __call__(self, boundary: Boundary, side: Side) -> None:
        order, point = self._arrived(boundary, side)
        here = _now_here()
        if side == "before":
            here.names.append(boundary.name)
        elif here.names:
            here.names.pop()
        if order is None or point is None:
            return
        self.note(f"{order.number} {point}")
        if point == order.point and order.action is not None and self._first(order):
            self._do(order.action, here)

    def _arrived(self, boundary: Boundary, side: Side) -> tuple[Order | None, Point | None]:
        with self._lock:
            order = self._ordered()
            if order is None or boundary.run_id not in ("", order.run_id):
                return order, None
            self._come[boundary.name, side] += 1
            return order, Point(boundary.name, self._come[boundary.name, side], side)

    def _ordered(self) -> Order | None:
        """The order in force; counting begins anew with each."""
        try:
            stamp = os.stat(self._folder / ORDER).st_mtime_ns
        except FileNotFoundError:
            return None
        if stamp != self._stamp:
            self._stamp = stamp
            self._order = Order.read(self._folder)
            self._come.clear()
        return self._order

    def note(self, line: str) -> None:
        os.write(self._trace, f"{line}\n".encode())

    def used_the_store(self) -> None:
        """Which boundary a statement belongs to: those can lose their connection."""
        here = _here.get()
        if here is not None and here.names and self._order is not None:
            self.note(f"{self._order.number} {here.names[-1]} store")

    def _first(self, order: Order) -> bool:
        """Once for each order, whichever process comes first."""
        try:
            os.close(os.open(self._folder / f"{REACHED}-{order.number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _do(self, action: Action, here: _Here) -> None:
        match action:
            case Action.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Action.FREEZE:
                os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(STOPPED_WITHIN)
            case Action.CUT | Action.DOUBT:
                here.lose = action


def cut_connections(engine: Engine, hook: Hook) -> None:
    """Let `hook` lose connections of this engine. The loss is real: the socket is shut."""
    dialect: Any = engine.dialect
    execute, commit = dialect.do_execute, dialect.do_commit

    def do_execute(cursor: Any, *rest: Any, **more: Any) -> None:  # noqa: ANN401 (the driver's own)
        hook.used_the_store()
        if _loses(Action.CUT):
            _shut(cursor.connection)
        execute(cursor, *rest, **more)

    def do_commit(connection: Any) -> None:  # noqa: ANN401
        commit(connection)
        if _loses(Action.DOUBT):
            _shut(connection)
            connection.execute("SELECT 1")

    dialect.do_execute, dialect.do_commit = do_execute, do_commit


def _loses(action: Action) -> bool:
    here = _here.get()
    if here is None or here.lose is not action:
        return False
    here.lose = None
    return True


def _shut(connection: psycopg.Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
