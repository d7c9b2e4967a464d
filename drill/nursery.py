"""A process without threads that has loaded everything once: a drilled process is a fork of it, not a start.

Orders come as lines of JSON, and so do answers: the pid of what was started, and what ended how. It ends with its
standard input, and everything that it started ends with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

LOOK_SECONDS = 0.05


def main() -> None:
    """Serve until standard input ends."""
    from drill.programs import PROGRAMS

    children: set[int] = set()
    try:
        _tell({"ready": os.getpid()})
        for line in _lines(children):
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become(order, PROGRAMS[order["program"]])
            children.add(pid)
            _tell({"started": order["number"], "pid": pid})
    except BrokenPipeError:
        pass  # nobody listens any more
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _lines(children: set[int]) -> Iterator[bytes]:
    """Orders until standard input ends; meanwhile what ended is told."""
    unread = b""
    while True:
        _reap(children)
        if not select.select([0], [], [], LOOK_SECONDS)[0]:
            continue
        read = os.read(0, 65536)
        if not read:
            return
        *lines, unread = (unread + read).split(b"\n")
        yield from lines


def _reap(children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            _tell({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _tell(said: dict[str, int]) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def _become(order: dict[str, Any], program: Any) -> NoReturn:  # noqa: ANN401 (a function of PROGRAMS)
    """The child: environment and output of its own, and never back into the loop."""
    os.environ.clear()
    os.environ.update(order["environment"])
    log = os.open(Path(order["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    code = 0
    try:
        program()
    except SystemExit as ended:
        code = int(ended.code or 0) if not isinstance(ended.code, str) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
