"""What operators do about a run that only a person can carry on, by the doors that people use."""

from __future__ import annotations

from collections.abc import Callable

from drill import commands
from drill.driving import at_once, rested, stands, worked
from drill.slot import Slot, Subject
from drill.waiting import Late

ASKING = "needs_operator"
Settle = Callable[[Slot, Subject], None]
MAY_EXECUTE = """
    SELECT FROM attempt a JOIN operation o ON o.key = a.operation_key WHERE o.run_id = %s
    AND a.lease_until + make_interval(secs => %s) > clock_timestamp()
"""


def look_and_say(slot: Slot, subject: Subject) -> None:
    """An operator looks at the provider's records, confirms what is there, and declares not executed what is not."""
    action, named = _seen(slot, subject)
    _say(slot, subject, action, **named)
    rested(slot, subject)


def _seen(slot: Slot, subject: Subject) -> tuple[str, dict[str, str]]:
    _nothing_executes(slot, subject)
    made = slot.accounts(subject.run_id)
    return ("confirm", {"reference": str(made[0]["id"])}) if made else ("not_executed", {})


def look_again(slot: Slot, subject: Subject) -> None:
    """An operator has automation look where something to see has come meanwhile, else goes by what is there."""
    permitted = {each.split()[3] for each in slot.show(subject.run_id)["next_actions"]}
    if "retry" not in permitted:
        look_and_say(slot, subject)
        return
    _say(slot, subject, "retry")
    rested(slot, subject)


def say_twice(slot: Slot, subject: Subject) -> None:
    """The same word four times at once, and again when the run is over."""
    action, named = _seen(slot, subject)
    at_once(4, lambda: _say(slot, subject, action, **named))
    if rested(slot, subject) != ASKING:
        slot.resolve(subject.run_id, action, **named)


def write_off(slot: Slot, subject: Subject) -> None:
    """One operator proposes to write the operation off, and another one agrees by a command."""
    _nothing_executes(slot, subject)
    _say(slot, subject, "write_off")
    commands.resolve(slot, subject, "olga", "write_off")
    rested(slot, subject)


def _nothing_executes(slot: Slot, subject: Subject) -> None:
    """What is looked at before a send's time is over may change after it."""
    settle_time = float(slot.environment["COUNTERFOIL_SETTLE_TIME"])
    worked(
        slot, lambda: not slot.rows(MAY_EXECUTE, subject.run_id, settle_time), "an end of what may still be executed"
    )


def _say(slot: Slot, subject: Subject, action: str, **more: str) -> None:
    """Raises Late for a refusal of a run that goes on asking."""
    answer = slot.resolve(subject.run_id, action, **more)
    if answer.status_code != 200 and stands(slot, subject) == ASKING:
        raise Late(f"{action} was refused: {answer.status_code} {answer.text:.300}")
