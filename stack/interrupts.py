"""Interrupts that wait for a moment: between making a process and knowing its id there is nobody to stop it by."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that come inside the block are handled right after it, by whoever handled them before."""
    arrived: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    # Only handlers of ours interrupt Python; what is ignored or has its default effect stays so.
    ours = {each: handler for each in HELD if callable(handler := signal.getsignal(each))}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    for each in ours:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each, handler in ours.items():
            signal.signal(each, handler)
    for number in arrived:
        signal.raise_signal(number)
