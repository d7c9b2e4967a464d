"""What people do by the command line: each command is a process that dies as others do, and is given again."""

from __future__ import annotations

import json

from cli.session import TOKEN
from domain.partner_onboarding import ONBOARDING
from drill.driving import NobodyWorks, asked, rested
from drill.programs import ARGUMENTS
from drill.slot import ANSWERED_WITHIN, PORTAL, RESTS_ON, Slot, Subject
from drill.waiting import until


def command(slot: Slot, actor: str, role: str, *arguments: str) -> None:
    """Give the command until it lives to answer; a refusal is an answer. Raises Late."""
    given = {TOKEN: slot.token(actor, role), ARGUMENTS: json.dumps(arguments)}

    def answered() -> bool:
        process = slot.ground.nursery.start("command", slot.environment | given, slot.folder / "command.log")
        until(process.ended.is_set, ANSWERED_WITHIN, "the end of a command")
        return process.status is not None and process.status >= 0

    until(answered, ANSWERED_WITHIN, f"an answer to {arguments[0]}")


def resolve(slot: Slot, subject: Subject, actor: str, action: str) -> None:
    """An operator's word."""
    rests_on = [part for name, text in RESTS_ON.items() for part in (f"--{name}", text)]
    command(slot, actor, "operator", "resolve", subject.run_id, action, *rests_on)


def _approve(slot: Slot, subject: Subject) -> None:
    shown = slot.show(subject.run_id)
    seen = ["--version", str(shown["input_version"]), "--fingerprint", shown["fingerprint"]]
    command(slot, "sabine", "supervisor", "approve", subject.run_id, *seen)


def started(slot: Slot, subject: Subject) -> None:
    """A run that an operator starts and a supervisor approves, both by command."""
    about = f"hubspot:{PORTAL}:0-2:{subject.company_id}"
    command(slot, "otto", "operator", "start", ONBOARDING.name, "--subject", about)
    if asked(slot, subject):
        _approve(slot, subject)
    rested(slot, subject)


def revoked(slot: Slot, subject: Subject) -> None:
    """An approval by command is taken back by command before anybody acts on it, and given again."""
    slot.deliver(slot.submitted(subject))
    if asked(slot, subject):
        with NobodyWorks(slot):
            _approve(slot, subject)
            command(slot, "sabine", "supervisor", "revoke-decision", subject.run_id, "--reason", "too soon")
    if asked(slot, subject):
        _approve(slot, subject)
    rested(slot, subject)
