"""`python -m demo`: the whole story on a stack of its own, in a folder and on ports that nobody else uses."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from demo.doors import opened
from demo.story import Story
from demo.telling import Broken, Narrator
from stack.__main__ import addresses, kill_on_another_interrupt, stop_on, watch
from stack.errors import StackError
from stack.ports import Ports
from stack.supervisor import Stack

INTERRUPTED = 130
# Minutes become moments; the code that uses them is the same.
FAST = {
    "COUNTERFOIL_SEND_BEFORE": "5",
    "COUNTERFOIL_SEND_TIMEOUT": "5",
    "COUNTERFOIL_SETTLE_TIME": "1",
    "COUNTERFOIL_VISIBILITY_LAG": "1",
    "COUNTERFOIL_OUTAGE_LAG": "1",
    "COUNTERFOIL_RETRY_PAUSE": "1",
    "COUNTERFOIL_SWEEP_INTERVAL": "1",
    "COUNTERFOIL_SWEEP_LEASE": "5",
    "COUNTERFOIL_SWEEP_PATIENCE": "1",
    "COUNTERFOIL_PROJECTION_INTERVAL": "0.5",
}


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    stop_on(signal.SIGTERM, signal.SIGHUP)
    stack = Stack(Path(tempfile.mkdtemp(prefix="counterfoil-demo-")), Ports.free(), FAST)
    try:
        code = told(stack, plant=chosen.plant, keep=chosen.keep)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        kill_on_another_interrupt(stack)
        stack.stop()
    return _tidied(stack.paths.root, code)


def told(stack: Stack, *, plant: bool, keep: bool) -> int:
    """The exit code: 0 only if everything held."""
    tell = Narrator()
    try:
        _story(stack, tell, plant=plant, keep=keep)
    except (Broken, StackError) as broken:
        print(f"\nDOES NOT HOLD: {broken}", file=sys.stderr, flush=True)
        return 1
    return 0


def _story(stack: Stack, tell: Narrator, *, plant: bool, keep: bool) -> None:
    tell.chapter(f"PostgreSQL, Temporal, sandbox, worker and gateway start in {stack.paths.root}")
    stack.start()
    with opened(stack.env) as doors:
        story = Story(stack, doors, tell)
        try:
            _acts(story, plant=plant)
        finally:
            if keep and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                _linger(story)


def _acts(story: Story, *, plant: bool) -> None:
    story.play()
    story.mirrored()
    if plant:
        story.plant()
    story.compared()
    story.tell.chapter("Everything held")


def _linger(story: Story) -> None:
    """The stack in the foreground until Ctrl-C."""
    print(f"\n{addresses(story.stack.ports, story.stack.paths.root)}\n{_to_try(story)}", flush=True)
    try:
        watch(story.stack)
    except KeyboardInterrupt:
        print("stopping", flush=True)


def _to_try(story: Story) -> str:
    commands = ("runs", f"show {story.run}", f"events {story.run}", f"show {story.run} --inputs", "audit")
    lines = [f"export COUNTERFOIL_DATA={story.stack.paths.root}", f"export COUNTERFOIL_TOKEN={story.token}"]
    lines += [f".venv/bin/counterfoil {words}" for words in commands]
    workflow = f"http://127.0.0.1:{story.stack.ports.temporal_ui_port}/namespaces/default/workflows/{story.workflow}"
    return "\n".join(["", "In a second shell:", *(f"  {line}" for line in lines), "", f"In a browser: {workflow}"])


def _tidied(root: Path, code: int) -> int:
    if code in (0, INTERRUPTED):
        shutil.rmtree(root, ignore_errors=True)
    else:
        print(f"its data and logs stay in {root}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description=__doc__, epilog="Exit codes: 0 everything held, 1 something did not."
    )
    kept = os.environ.get("KEEP", "") not in ("", "0")
    parser.add_argument(
        "--keep", action="store_true", default=kept, help="leave the stack up until Ctrl-C, as KEEP=1 does"
    )
    parser.add_argument(
        "--plant", action="store_true", help="self-check: falsify the account at the provider; the demo must fail"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
