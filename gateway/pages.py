"""A run as a page for a person with a browser: what the JSON says, in the same words. No scripts, nothing to send.

Every value goes through `_text` or `_code`, so whatever the store holds is shown and nothing of it is markup.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any

from starlette.responses import HTMLResponse

from domain.identity import workflow_id
from domain.states import RunState
from domain.wording import AMEND, SHOWN_AS, says

View = Mapping[str, Any]
LISTED_EVENTS = 200
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2430; background: #f7f8fa; margin: 0; }
main { max-width: 75rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .about { color: #5a6474; }
.state { border-left: .5rem solid #7b8794; background: #fff; padding: 1rem 1.25rem; }
.awaiting_review { border-color: #2f6fde; } .waiting { border-color: #8250c4; } .retrying { border-color: #3f8fa8; }
.outcome_unknown { border-color: #d99000; } .needs_operator { border-color: #c62f2f; }
.succeeded { border-color: #2c8a4b; } .failed, .expired { border-color: #4a4a4a; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: .8rem 0 0; }
dt { color: #5a6474; } dd { margin: 0; overflow-wrap: anywhere; }
code { font: 13px/1.5 ui-monospace, monospace; }
.command { display: block; background: #1d2430; color: #f2f4f8; padding: .6rem .8rem; margin: .4rem 0;
  overflow-wrap: anywhere; user-select: all; }
.wide { overflow-x: auto; background: #fff; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid #e3e6eb; }
th { color: #5a6474; font-weight: 600; white-space: nowrap; } td code { white-space: nowrap; }
td .long { white-space: normal; overflow-wrap: anywhere; } .when { white-space: nowrap; }
"""
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept",
}
SHORT_FINGERPRINT = 16


def wants_page(accept: str) -> bool:
    """Whether this Accept header asks for a page by name and rather than for JSON, which programs get by default."""
    wanted = dict(map(_weighed, accept.split(",")))
    as_json = next((wanted[kind] for kind in ("application/json", "application/*", "*/*") if kind in wanted), 0.0)
    return wanted.get("text/html", 0.0) > as_json


def _weighed(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    given = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
    try:
        return kind, float(given[0]) if given else 1.0
    except ValueError:
        return kind, 0.0


def run_page(view: View, events: Sequence[View]) -> HTMLResponse:
    """`view` as `run_view` makes it, with the latest events, oldest first."""
    about = ["<h2>This run</h2>", _pairs(_about(view))]
    parts = [_head(view), *_to_do(view["next_actions"]), *about, *_tables(view), *_history(view, events)]
    return _page(f"{view['shown_as']}: {view['run']}", parts)


def refusal_page(refused: View, status: int) -> HTMLResponse:
    """A typed refusal as `as_dict` makes it."""
    said = _text(refused["message"])
    return _page("Refused", [f"<h1>{said}</h1>", f'<p class="about">{_code(refused["error"])}</p>'], status)


def _page(title: str, parts: Iterable[str], status: int = 200) -> HTMLResponse:
    body = "\n".join(parts)
    content = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_text(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    return HTMLResponse(content, status, HEADERS)


def _head(view: View) -> str:
    title = f"<h1>{_text(view['shown_as'])}</h1>\n<p>{_text(view['explained'])}</p>"
    return f'<section class="state {_text(view["state"])}">\n{title}\n{_pairs(_standing(view))}\n</section>'


def _standing(view: View) -> list[tuple[str, str]]:
    reason = _code(view["reason"]) + (f": {_text(view['meaning'])}" if view["meaning"] else "")
    window = view["resend_window_ends"]
    deadline = "Next try" if view["state"] == RunState.RETRYING else "Deadline"
    return [
        ("Reason", reason),
        ("Waiting for", _text(view["waiting_for"])),
        ("Since", _when(view["since"])),
        (deadline, _when(view["deadline"] if view["deadline"] != window else None)),
        ("Next look", _when(view["next_look"])),
        ("Resend window ends", _when(window)),
        ("Asked to stop", _when(view["cancel_requested_at"])),
        ("Inputs erased", _when(view["erased_at"])),
    ]


def _about(view: View) -> list[tuple[str, str]]:
    engine = view["engine"]
    workflow = workflow_id(view["process"], view["business_key"], view["number"], engine["epoch"])
    return [
        ("Run", f"{_code(view['run'])} ({_text(view['kind'])}, run {_text(view['number'])})"),
        ("Process", f"{_text(view['process'])}, policy {_text(view['policy_version'])}"),
        ("Business key", _code(view["business_key"])),
        ("Subject", _code(view["subject"])),
        ("Input version", _text(view["input_version"] or None)),
        ("Sealed version", _text(view["sealed_version"])),
        ("Fingerprint", _code(view["fingerprint"]) if view["fingerprint"] else ""),
        ("Workflow in Temporal", f"{_code(workflow)} ({_text(engine['health'])})"),
    ]


def _to_do(actions: Sequence[str]) -> list[str]:
    if not actions:
        return ["<h2>What to do</h2>", "<p>Nothing has to be done by a person.</p>"]
    return ["<h2>What to do</h2>", *map(_action, actions)]


def _action(action: str) -> str:
    if action == AMEND:
        return f"<p>{_text(action[0].upper() + action[1:])}.</p>"
    told = says(action)
    meaning = f'<p class="about">{_text(told[0].upper() + told[1:])}:</p>\n' if told else ""
    return f'{meaning}<code class="command">{_text(action)}</code>'


def _tables(view: View) -> list[str]:
    return [
        *_table(
            "Operations",
            ("Step", "System", "Outcome", "Id outside", "Sends", "Key"),
            map(_operation, view["operations"]),
        ),
        *_table("Decisions", ("Outcome", "Version", "By", "Valid until", ""), map(_decision, view["decisions"])),
        *_table("Input versions", ("Number", "Read", "Fingerprint", "Problems"), map(_version, view["versions"])),
    ]


def _operation(each: View) -> list[str]:
    return [
        _text(each["step"]),
        _text(each["system"]),
        _text(each["outcome"]),
        _code(each["reference"]),
        _text(each["attempts"]),
        _code(each["operation"]),
    ]


def _decision(each: View) -> list[str]:
    revoked = "revoked" if each["revoked"] else ""
    return [_text(each["outcome"]), _text(each["version"]), _text(each["by"]), _when(each["valid_until"]), revoked]


def _version(each: View) -> list[str]:
    short = f"{each['fingerprint'][:SHORT_FINGERPRINT]}…"
    return [_text(each["number"]), _when(each["read_at"]), _code(short), _text(", ".join(each["problems"]))]


def _history(view: View, events: Sequence[View]) -> list[str]:
    head = ("No.", "At", "State", "Reason", "Step", "By", "Evidence")
    table = _table("Events", head, map(_event, events))
    left_out, all_of_them = view["seq"] - len(events), f"counterfoil events {view['run']}"
    note = f'<p class="about">The {left_out} earlier ones: {_code(all_of_them)}</p>'
    return [*table, note] if left_out > 0 else table


def _event(each: View) -> list[str]:
    evidence = json.dumps(each["evidence"], ensure_ascii=False) if each["evidence"] else ""
    return [
        _text(each["seq"]),
        _when(each["at"]),
        _text(SHOWN_AS[RunState(each["next"])]),
        _code(each["reason"]),
        _text(each["step"]),
        _text(f"{each['actor_kind']} {each['actor_id']}"),
        f'<code class="long">{_text(evidence)}</code>',
    ]


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Cells are markup already."""
    body = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    if not body:
        return []
    names = "".join(f"<th>{_text(name)}</th>" for name in head)
    table = "\n".join([f"<table>\n<tr>{names}</tr>", *body, "</table>"])
    return [f"<h2>{_text(title)}</h2>", f'<div class="wide">\n{table}\n</div>']


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Values are markup already; a name without one is left out."""
    return "<dl>\n" + "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in pairs if value) + "</dl>"


def _text(value: object) -> str:
    return "" if value is None else escape(str(value))


def _code(value: object) -> str:
    return "" if value is None else f"<code>{escape(str(value))}</code>"


def _when(iso: str | None) -> str:
    if iso is None:
        return ""
    moment = datetime.fromisoformat(iso).astimezone(UTC)
    return f'<time class="when" datetime="{escape(iso)}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'
