"""An interrupt between the start of a child and the knowledge of its id leaves no child behind."""

import signal
import sys
from pathlib import Path

import pytest

from stack.child import Child, Command, Files
from stack.interrupts import held_back


def test_an_interrupt_inside_the_block_comes_after_it() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (what comes before the interrupt is the point)
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("block")
        done.append("after")
    assert done == ["block"]


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_that_was_interrupted_at_birth_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (sys.executable, "-c", "import signal; signal.pause()")
    child = Child("born", lambda: Command(program, {}, cwd=tmp_path), Files.of(tmp_path, "born"))
    # the worst moment: the process is there, the caller does not know it yet
    monkeypatch.setattr("stack.child._write_record", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        child.spawn()
    assert child.alive()
    child.stop()
    assert not child.alive()
