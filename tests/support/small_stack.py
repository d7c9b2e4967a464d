"""A supervisor over two small programs: `python small_stack.py up` in place of `python -m stack up`."""

import sys
from collections.abc import Sequence
from functools import partial

from stack.__main__ import main
from stack.child import Child, Command, Files, Stopping
from stack.files import CHECKOUT
from stack.ports import listening
from stack.programs import Part, Plan

# Says in the journal when it starts and when it is asked to stop; listens where it is told to, once it has said so.
PROGRAM = """
import os, signal, socket, sys, time
name, port, journal = sys.argv[1:]
def say(what):
    with open(journal, "a") as file:
        file.write(f"{name} {what}\\n")
def stop(*_):
    say("stopped")
    sys.exit()
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, lambda *_: say("interrupted"))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(port)))
say("started")
listener.listen()
while True:
    signal.pause()
"""


def small_parts(plan: Plan) -> Sequence[Part]:
    ports = {"first": plan.ports.sandbox_port, "second": plan.ports.gateway_port}
    return [_listener(plan, name, port) for name, port in ports.items()]


def _listener(plan: Plan, name: str, port: int) -> Child:
    journal = str(plan.paths.root / "journal")
    command = Command((sys.executable, "-c", PROGRAM, name, str(port), journal), plan.environment, cwd=CHECKOUT)
    child = Child(name, lambda: command, Files.of(plan.paths.root, name))
    child.ready = partial(listening, port)
    child.stopping = Stopping(grace_seconds=60.0)
    return child


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], small_parts))
