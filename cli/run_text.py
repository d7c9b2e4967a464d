"""A run, its events and its inputs as text. States are worded where every other door words them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.text import indented, instant, pairs, table
from domain.states import RunState
from domain.wording import SHOWN_AS

View = dict[str, Any]


def listed(runs: Sequence[View]) -> list[str]:
    """One line for each run."""
    head = ("RUN", "STATE", "REASON", "WAITS FOR", "SINCE", "PROCESS", "KEY")
    names = ("run", "shown_as", "reason", "next_owner", "since", "process", "business_key")
    rows = [[instant(run[name]) if name == "since" else run[name] for name in names] for run in runs]
    return table(head, rows)


def run_lines(view: View) -> list[str]:
    """Where the run stands, then what belongs to it, then what may be done."""
    lines = [f"{view['run']}: {view['shown_as']}", f"  {view['explained']}", "", *pairs(_facts(view))]
    for title, block in (("versions", _versions), ("decisions", _decisions), ("operations", _operations)):
        lines += ["", title.capitalize(), *indented(block(view[title]))] if view[title] else []
    return [*lines, *_permitted(view["next_actions"])]


def _facts(view: View) -> list[tuple[str, object]]:
    times = ("since", "deadline", "resend_window_ends", "cancel_requested_at", "erased_at")
    kept = {name: instant(view[name]) if view[name] else None for name in times}
    return [
        ("reason", ": ".join(filter(None, (view["reason"], view["meaning"])))),
        ("since", kept["since"]),
        ("waiting for", view["waiting_for"]),
        ("deadline", kept["deadline"]),
        ("resend window ends", kept["resend_window_ends"]),
        ("asked to stop", kept["cancel_requested_at"]),
        ("inputs erased", kept["erased_at"]),
        ("process", f"{view['process']} ({view['policy_version']})"),
        ("business key", view["business_key"]),
        ("subject", view["subject"]),
        ("kind", f"{view['kind']}, run {view['number']}"),
        ("input version", view["input_version"] or None),
        ("fingerprint", view["fingerprint"]),
        ("sealed version", view["sealed_version"]),
        ("engine", view["engine"]["health"]),
    ]


def _versions(versions: Sequence[View]) -> list[str]:
    rows = [(v["number"], v["fingerprint"], instant(v["read_at"]), ", ".join(v["problems"])) for v in versions]
    return table(("VERSION", "FINGERPRINT", "READ", "PROBLEMS"), rows)


def _decisions(decisions: Sequence[View]) -> list[str]:
    rows = [
        (d["decision"], d["outcome"], d["version"], d["by"], instant(d["valid_until"]), d["revoked"]) for d in decisions
    ]
    return table(("DECISION", "OUTCOME", "VERSION", "BY", "VALID UNTIL", "REVOKED"), rows)


def _operations(operations: Sequence[View]) -> list[str]:
    rows = [(o["operation"], o["step"], o["system"], o["outcome"], o["reference"], o["attempts"]) for o in operations]
    return table(("OPERATION", "STEP", "SYSTEM", "OUTCOME", "REFERENCE", "ATTEMPTS"), rows)


def _permitted(actions: Sequence[str]) -> list[str]:
    return ["", "Permitted next", *indented(actions)] if actions else []


def event_lines(events: Sequence[View]) -> list[str]:
    """One line for each event."""
    head = ("SEQ", "AT", "STATE", "REASON", "STEP", "BY", "NEXT OWNER")
    rows = [
        (e["seq"], instant(e["at"]), SHOWN_AS[RunState(e["next"])], e["reason"], e["step"], _by(e), e["next_owner"])
        for e in events
    ]
    return table(head, rows)


def _by(event: View) -> str:
    return f"{event['actor_kind']} {event['actor_id']}"


def input_lines(content: View) -> list[str]:
    """The inputs of one version, for the person who decides about them."""
    named = [(name, "(not given)" if value is None else value) for name, value in sorted(content["inputs"].items())]
    return ["", f"Inputs of version {content['version']}, fingerprint {content['fingerprint']}", *pairs(named)]
