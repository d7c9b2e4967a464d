"""What messages can do on the way: come twice, early, late, in another order, or not be believed."""

from __future__ import annotations

from drill.driving import approve, asked, at_once, nudge, rested, submit
from drill.slot import PARTNER, Slot, Subject


def trigger_twice(slot: Slot, subject: Subject) -> None:
    """Four times at once, and once more when all is over."""
    element = slot.submitted(subject)
    at_once(4, lambda: slot.deliver(element))
    approve(slot, subject)
    rested(slot, subject)
    slot.deliver(element)


def trigger_redelivered(slot: Slot, subject: Subject) -> None:
    """Delivered again after each step, with another attempt number."""
    element = slot.submitted(subject)
    slot.deliver(element)
    asked(slot, subject)
    slot.deliver({**element, "attemptNumber": 1})
    approve(slot, subject)
    slot.deliver({**element, "attemptNumber": 2})
    rested(slot, subject)


def triggers_reordered(slot: Slot, subject: Subject) -> None:
    """A change that was made after the submission arrives before it, and a second submission in one batch with it."""
    first, change = slot.submitted(subject), slot.element(subject, "name", PARTNER["name"])
    again = slot.submitted(subject)
    slot.deliver(change)
    slot.deliver(again, first)
    approve(slot, subject)
    rested(slot, subject)


def decision_twice(slot: Slot, subject: Subject) -> None:
    """The same decision four times at once, and when all is over."""
    submit(slot, subject)
    if asked(slot, subject):
        shown = slot.show(subject.run_id)
        seen = {"version": shown["input_version"], "fingerprint": shown["fingerprint"]}
        at_once(4, lambda: slot.decide(subject.run_id, **seen))
        rested(slot, subject)
        slot.decide(subject.run_id, **seen)


def decision_early(slot: Slot, subject: Subject) -> None:
    """About content that nobody asked about."""
    submit(slot, subject)
    if asked(slot, subject):
        slot.decide(subject.run_id, fingerprint="0" * 64)
    approve(slot, subject)
    rested(slot, subject)


def decision_late(slot: Slot, subject: Subject) -> None:
    """A second person says the opposite at the same time, and again when all is over."""
    submit(slot, subject)
    approve(slot, subject)
    slot.decide(subject.run_id, "rejected", "stefan")
    rested(slot, subject)
    slot.decide(subject.run_id, "rejected", "stefan")


def decisions_reordered(slot: Slot, subject: Subject) -> None:
    """The decision about the first version arrives after the second one is asked about."""
    submit(slot, subject)
    if asked(slot, subject):
        first = slot.show(subject.run_id)
        slot.change(subject, name="Nordwind Handels AG")
        slot.deliver(slot.element(subject, "name", "Nordwind Handels AG"))
        if asked(slot, subject, 2):
            slot.decide(subject.run_id, version=first["input_version"], fingerprint=first["fingerprint"])
    approve(slot, subject, 2)
    rested(slot, subject)


def nudged(slot: Slot, subject: Subject) -> None:
    """Ten nudges at every stage, and after the end."""
    submit(slot, subject)
    nudge(slot, subject, 10)
    if asked(slot, subject):
        nudge(slot, subject, 10)
        slot.decide(subject.run_id)
    nudge(slot, subject, 10)
    rested(slot, subject)
    nudge(slot, subject, 10)
