"""`python -m stack up`: the whole stack in the foreground until Ctrl-C or SIGTERM."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from stack.environment import chosen_by_operator, gateway_url, sandbox_url, temporal_address, temporal_ui_url
from stack.errors import StackError
from stack.ports import LOOPBACK, PREFIX, Ports, setting_name
from stack.programs import Parts, counterfoil
from stack.provision import DATABASE
from stack.supervisor import Stack

LOOK_SECONDS = 0.2
CANNOT_BEGIN = 2
TO_TRY = "To try it, in a second shell: make submit"


class StackSettings(BaseSettings):
    """`data` is the folder that holds everything (COUNTERFOIL_DATA)."""

    model_config = SettingsConfigDict(env_prefix=PREFIX)

    data: Path = Path(".counterfoil")


def main(arguments: list[str], parts: Parts = counterfoil) -> int:
    if arguments != ["up"]:
        print("usage: python -m stack up", file=sys.stderr)
        return CANNOT_BEGIN
    try:
        return up(Stack(StackSettings().data, Ports(), chosen_by_operator(os.environ), parts))
    except ValidationError as error:
        return _say(_bad_settings(error), CANNOT_BEGIN)
    except StackError as error:
        return _say(str(error), error.exit_code)


def up(stack: Stack) -> int:
    stop_on(signal.SIGTERM, signal.SIGHUP)
    try:
        stack.start()
        print(f"{addresses(stack.ports, stack.paths.root)}\n\n{TO_TRY}", flush=True)
        watch(stack)
    except KeyboardInterrupt:
        print("stopping", flush=True)
    finally:
        kill_on_another_interrupt(stack)
        stack.stop()
    return 0


def watch(stack: Stack) -> None:
    while True:
        for said in stack.look_after():
            print(said, flush=True)
        time.sleep(LOOK_SECONDS)


def addresses(ports: Ports, root: Path) -> str:
    lines = {
        "gateway": gateway_url(ports),
        "Temporal UI": temporal_ui_url(ports),
        "Temporal": temporal_address(ports),
        "sandbox": sandbox_url(ports),
        "PostgreSQL": f"{LOOPBACK}:{ports.postgres_port}, database {DATABASE}",
    }
    listed = "\n".join(f"  {name:<12} {where}" for name, where in lines.items())
    return f"Counterfoil is up, its data and logs are in {root}; Ctrl-C stops it.\n{listed}"


def stop_on(*signals: signal.Signals) -> None:
    """They all end `watch` as Ctrl-C does, unless the shell (nohup) asked to ignore them."""
    for which in signals:
        if signal.getsignal(which) != signal.SIG_IGN:
            signal.signal(which, signal.default_int_handler)


def kill_on_another_interrupt(stack: Stack) -> None:
    """A second Ctrl-C is impatience. A second SIGTERM is not: `make` passes on what its whole group received."""

    def kill(_signal: int, _frame: FrameType | None) -> None:
        for child in stack.children:
            child.send(signal.SIGKILL)

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, kill)


def _bad_settings(error: ValidationError) -> str:
    return "; ".join(f"{setting_name(str(each['loc'][0]))}: {each['msg']}" for each in error.errors())


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
