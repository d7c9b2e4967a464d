"""The page of a run in a browser: every state in the words of the JSON, no data as markup, JSON for everybody else."""

from __future__ import annotations

import re
from html import escape, unescape
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from world import World

from domain.states import RunState
from domain.wording import AMEND, EXPLAINED, SHOWN_AS
from gateway.pages import STYLE_HASH, refusal_page, run_page, wants_page

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
HOSTILE = """<script>alert("1")</script> & '<img src=x onerror=y>"""
ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "section",
    "div",
    "h1",
    "h2",
    "p",
    "dl",
    "dt",
    "dd",
}
ALLOWED |= {"code", "time", "table", "tr", "th", "td"}
ATTRIBUTES = {"lang", "charset", "name", "content", "class", "datetime"}
AT = "2026-12-01T08:30:00.123456+00:00"


class Tags(HTMLParser):
    """Names of the tags and attributes, and whether every tag is closed in its order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def view(state: RunState = RunState.AWAITING_REVIEW, text: str = "plain", **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A run as the store shows it, with `text` wherever a text of any kind can stand."""
    operation = {"operation": text, "step": text, "system": text, "outcome": text, "reference": text, "attempts": 2}
    version = {"number": 1, "fingerprint": text * 20, "read_at": AT, "problems": [text, text]}
    decision = {"outcome": text, "version": 1, "by": text, "valid_until": AT, "revoked": True}
    shown = dict.fromkeys(("run", "kind", "process", "policy_version", "business_key", "subject", "reason"), text)
    moments = ("since", "deadline", "next_look", "resend_window_ends", "cancel_requested_at", "erased_at")
    times = dict.fromkeys(moments, AT)
    return {
        **shown,
        **times,
        "state": state,
        "shown_as": SHOWN_AS[state],
        "explained": EXPLAINED[state],
        "meaning": text,
        "waiting_for": text,
        "next_actions": [f"counterfoil approve {text}", AMEND],
        "number": 1,
        "seq": 1,
        "input_version": 1,
        "sealed_version": 1,
        "fingerprint": text,
        "versions": [version],
        "decisions": [decision],
        "operations": [operation],
        "engine": {"epoch": 1, "health": text},
        **changes,
    }


def event(text: str = "plain") -> dict[str, Any]:
    named = dict.fromkeys(("reason", "step", "actor_kind", "actor_id"), text)
    return {**named, "seq": 1, "at": AT, "next": "running", "evidence": {text: [text]}}


def page(shown: dict[str, Any], *events: dict[str, Any]) -> str:
    return bytes(run_page(shown, events).body).decode()


def get(shared: World, path: str, accept: str | None = BROWSER) -> httpx.Response:
    return shared.http.get(path, headers={} if accept is None else {"Accept": accept})


# ── Who gets a page ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "accept",
    [
        BROWSER,
        "text/html",
        "TEXT/HTML",
        "application/json;q=0.5, text/html",
        "text/html;q=0.9,*/*;q=0.1",
        "text/html;x=1",
    ],
)
def test_a_browser_gets_a_page(accept: str) -> None:
    assert wants_page(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "text/*",
        "application/json, text/html",
        "text/html;q=0.5, application/json;q=0.6",
        "text/html;q=0",
        "text/html;q=nonsense",
        "text/html;q=0.3, */*;q=0.8",
        "application/xhtml+xml",
        ";;,,q=,",
    ],
)
def test_a_program_gets_json(accept: str) -> None:
    assert not wants_page(accept)


# ── What is on it ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", RunState)
def test_every_state_is_worded_as_everywhere_else(state: RunState) -> None:
    text = page(view(state), event())
    assert f"<h1>{escape(SHOWN_AS[state])}</h1>" in text
    assert escape(EXPLAINED[state]) in text
    assert f'class="state {state}"' in text
    assert "2026-12-01 08:30:00 UTC" in text


def test_nothing_of_the_data_becomes_markup() -> None:
    clean, hostile = Tags(page(view(), event())), page(view(text=HOSTILE), event(HOSTILE))
    seen = Tags(hostile)
    assert (seen.tags, seen.attributes, seen.open) == (clean.tags, clean.attributes, [])
    assert seen.tags <= ALLOWED
    assert seen.attributes <= ATTRIBUTES
    assert "<script" not in hostile
    assert hostile.count(escape(HOSTILE)) > 20


def test_actions_can_be_copied_whole() -> None:
    command = "counterfoil resolve run-1 fail --reason 'a & b' --evidence <TEXT>"
    text = page(view(next_actions=[command]))
    assert [unescape(block) for block in re.findall(r'<code class="command">(.*?)</code>', text)] == [command]
    assert "End the run for good:" in text


def test_amending_is_no_command() -> None:
    text = page(view(RunState.WAITING, next_actions=[AMEND]))
    assert "<p>Amend the record in the CRM.</p>" in text
    assert 'class="command"' not in text


def test_where_nothing_is_to_be_done_the_page_says_so() -> None:
    assert "Nothing has to be done by a person." in page(view(RunState.OUTCOME_UNKNOWN, next_actions=[]))


def test_what_is_not_known_is_left_out() -> None:
    nothing = dict.fromkeys(("meaning", "waiting_for", "deadline", "next_look", "resend_window_ends"))
    bare: dict[str, Any] = {"versions": [], "decisions": [], "operations": [], "sealed_version": None, **nothing}
    text = page(view(RunState.QUEUED, fingerprint="", input_version=0, cancel_requested_at=None, **bare))
    assert "None" not in text
    left_out = ("Deadline", "Next look", "Input version", "Fingerprint", "Operations", "Decisions", "Events")
    assert [name for name in left_out if f">{name}<" in text] == []


def test_the_end_of_the_resend_window_is_not_called_a_deadline_too() -> None:
    assert page(view(RunState.OUTCOME_UNKNOWN)).count("<dt>Deadline</dt>") == 0
    assert page(view(resend_window_ends=None)).count("<dt>Deadline</dt>") == 1


def test_events_that_do_not_fit_are_counted() -> None:
    assert "The 41 earlier ones" in page(view(seq=42), event())
    assert "earlier ones" not in page(view(seq=1), event())


def test_a_refusal_is_a_page_too() -> None:
    refused = refusal_page({"error": "not_found", "message": f"no run {HOSTILE}"}, 404)
    assert refused.status_code == 404
    assert escape(HOSTILE) in bytes(refused.body).decode()
    assert Tags(bytes(refused.body).decode()).tags <= ALLOWED


# ── Through the gateway ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def waiting(shared: World) -> str:
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    return run_id


def test_the_same_address_serves_both(shared: World, waiting: str) -> None:
    for accept in (None, "application/json"):
        said = get(shared, f"/runs/{waiting}", accept)
        assert (said.headers["content-type"], said.headers["vary"]) == ("application/json", "Accept")
        assert said.json()["run"] == waiting
    shown = get(shared, f"/runs/{waiting}")
    assert (shown.headers["content-type"], shown.headers["vary"]) == ("text/html; charset=utf-8", "Accept")
    assert f"sha256-{STYLE_HASH}" in shown.headers["content-security-policy"]


def test_the_page_says_what_the_json_says(shared: World, waiting: str) -> None:
    said, text = shared.show(waiting), unescape(get(shared, f"/runs/{waiting}").text)
    named = ("shown_as", "explained", "reason", "meaning", "waiting_for", "business_key", "subject", "fingerprint")
    assert [name for name in named if said[name] not in text] == []
    assert [action for action in said["next_actions"] if action not in text] == []
    assert [each["reason"] for each in shared.events(waiting) if each["reason"] not in text] == []


def test_the_page_holds_nothing_of_the_partner(shared: World, waiting: str) -> None:
    text = get(shared, f"/runs/{waiting}").text
    personal = ("Nordwind", "nordwind.example", "DE89370400440532013000", "Petra", "5550100")
    assert [word for word in personal if word in text] == []


def test_a_run_that_does_not_exist(shared: World) -> None:
    page_of_none, json_of_none = get(shared, "/runs/run-<b>none"), get(shared, "/runs/run-<b>none", None)
    assert (page_of_none.status_code, json_of_none.status_code) == (404, 404)
    assert json_of_none.json()["error"] == "not_found"
    assert "<h1>no run &#x27;run-&lt;b&gt;none&#x27;</h1>" in page_of_none.text
