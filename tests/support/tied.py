"""Programs that end with the process that started them, also when that one has no time to tidy up."""

import signal
from collections.abc import Sequence
from pathlib import Path

from stack.child import Command, tethered


def tied(argv: Sequence[str]) -> list[str]:
    """The command line that starts this program on a tether."""
    return tethered(Command(tuple(argv), {}, Path.cwd(), death_signal=signal.SIGKILL))
