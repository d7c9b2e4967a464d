"""What people read of a run: no two states share words, no two waits share an action, and nothing is left blank."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.reasons import MEANING
from domain.resolutions import Action, Doubtful
from domain.states import TERMINAL, RunState
from domain.wording import EXPLAINED, SHOWN_AS, Shown, details, next_actions, says, summary, waiting_for

S = RunState
AT = datetime(2026, 12, 1, 8, 30, 0, 123456, UTC)
LINK = "https://counterfoil.example/runs/run-1"
WAITS = (S.AWAITING_REVIEW, S.OUTCOME_UNKNOWN, S.NEEDS_OPERATOR, S.WAITING, S.RETRYING, S.QUEUED)
LONGEST_SUMMARY = 120


def shown(state: RunState, **changes: object) -> Shown:
    deadline, look = AT + timedelta(days=3), AT + timedelta(minutes=2)
    return replace(Shown("run-1", state, "reason", AT, "role", deadline, 2, "f" * 64, (), (), look), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [SHOWN_AS, EXPLAINED], ids=["shown as", "explained"])
def test_every_state_has_words_of_its_own(words: dict[RunState, str]) -> None:
    assert set(words) == set(RunState)
    assert len(set(words.values())) == len(RunState)


def test_no_two_waits_wait_for_the_same_or_permit_the_same() -> None:
    named = [shown(state, next_owner=f"owner of {state}") for state in WAITS]
    assert len({waiting_for(each) for each in named}) == len(WAITS)
    actions = [set(next_actions(each)) for each in named]
    assert sum(map(len, actions)) == len(set().union(*actions))


@pytest.mark.parametrize("state", sorted(TERMINAL | {S.OUTCOME_UNKNOWN, S.RETRYING, S.QUEUED, S.RUNNING}))
def test_where_nobody_has_to_act_the_details_say_so(state: RunState) -> None:
    assert "**Nothing to do.**" in details(shown(state), LINK)


@pytest.mark.parametrize("state", RunState)
def test_details_name_state_reason_times_and_the_run(state: RunState) -> None:
    text = details(shown(state), LINK)
    assert text.startswith(f"**{SHOWN_AS[state]}**: {EXPLAINED[state]}")
    assert f"[run-1]({LINK})" in text
    assert "- Reason: `reason`" in text
    assert "- Since: 2026-12-01 08:30:00 UTC" in text
    assert "None" not in text
    assert [action for action in next_actions(shown(state)) if action not in text] == []


@pytest.mark.parametrize("in_doubt", [(), (Doubtful("op-1", automatic=True),)], ids=["nothing in doubt", "in doubt"])
def test_every_resolution_says_what_it_tells_us(in_doubt: tuple[Doubtful, ...]) -> None:
    asked = shown(S.NEEDS_OPERATOR, in_doubt=in_doubt)
    text = details(asked, LINK)
    assert [action for action in next_actions(asked) if f"- {says(action)}: `{action}`" not in text] == []


def test_only_resolutions_need_a_meaning() -> None:
    assert {says(action) for action in next_actions(shown(S.AWAITING_REVIEW))} == {None}
    assert all(says(f"counterfoil resolve run-1 {action} --reason TEXT") for action in Action)


def test_one_time_matters() -> None:
    text = details(shown(S.AWAITING_REVIEW), LINK)
    assert "Deadline: 2026-12-04 08:30:00 UTC" in text
    assert "Next look" not in text
    unknown = details(shown(S.OUTCOME_UNKNOWN), LINK)
    assert "Next look: 2026-12-01 08:32:00 UTC\n- Resend window ends: 2026-12-04 08:30:00 UTC" in unknown
    assert "Deadline" not in unknown
    assert "Next try: 2026-12-01 08:32:00 UTC" in details(shown(S.RETRYING), LINK)


def test_problems_of_incomplete_inputs_are_named() -> None:
    text = details(shown(S.WAITING, problems=("iban: missing",)), LINK)
    assert "- Problems: `iban: missing`" in text
    assert "**What to do:** amend the record in the CRM." in text


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("reason", ["review_opened", max(MEANING, key=len)])
def test_a_summary_is_one_short_plain_line(state: RunState, reason: str) -> None:
    line = summary(shown(state, reason=reason))
    assert line.startswith(SHOWN_AS[state])
    assert len(line) <= LONGEST_SUMMARY
    assert not set(line) & set("*`[]\n")


def test_meanings_are_part_of_a_sentence() -> None:
    assert [text for text in MEANING.values() if text.endswith(".") or text[0].isupper() or "`" in text] == []


def test_every_reason_to_ask_an_operator_has_a_meaning() -> None:
    page = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()
    reasons = set(re.findall(r"^### `(\w+)`$", page, re.MULTILINE))
    assert "contracts_exhausted" in reasons
    assert reasons - set(MEANING) == set()
