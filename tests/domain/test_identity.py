"""Identities are short, safe in every address, the same for the same thing and different for different things."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InvalidInput
from domain.identity import (
    MAX_KEY,
    OperationIdentity,
    SubjectRef,
    checked_key,
    operation_key,
    safe_key,
    short_digest,
    subject_key,
    workflow_id,
)

SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,199}\Z")
ACCEPTED_KEYS = ["x" * 256, "ключ" * 75, "😀" * 251, "a/b c%20#?&x", "2026-10 EMEA", "k-" + "a" * 26]
REFUSED_KEYS = ["", " ", "   ", "a\nb", "a\n", "\n", "a\x00b", "\t", "x" * 1001, "x" * (MAX_KEY + 1), "x\ud83d"]
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=300)


@pytest.mark.parametrize("key", ACCEPTED_KEYS, ids=lambda key: ascii(key[:12]))
def test_c24_an_accepted_key_gives_a_short_safe_workflow_id(key: str) -> None:
    assert checked_key(key) == key
    assert SAFE_ID.match(workflow_id("partner-onboarding", checked_key(key), 1, 1))


@pytest.mark.parametrize("key", REFUSED_KEYS, ids=lambda key: ascii(key[:12]))
def test_c24_a_bad_key_is_refused_before_any_row(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_key(key)
    assert refused.value.fields["field"] == "business_key"


def test_i1_a_key_has_one_normal_form() -> None:
    assert checked_key(" Жданои\u0306 ") == checked_key("Жданой") == "Жданой"
    assert checked_key("EMEA") != checked_key("emea")


@EXAMPLES
@given(st.text(max_size=600))
def test_a_checked_key_stays_as_it_is(key: str) -> None:
    try:
        normal = checked_key(key)
    except InvalidInput:
        return
    assert checked_key(normal) == normal


@EXAMPLES
@given(st.text(max_size=1200), st.text(max_size=1200), st.integers(1, 10**9), st.integers(1, 10**9))
def test_c24_a_workflow_id_is_always_short_and_safe(process: str, key: str, run: int, epoch: int) -> None:
    assert SAFE_ID.match(workflow_id(process, key, run, epoch))


PARTS = st.text(st.sampled_from("ab.-r1e"), min_size=1, max_size=4)
WHOLE = st.tuples(PARTS, PARTS, st.integers(1, 12), st.integers(1, 12))


@EXAMPLES
@given(WHOLE, WHOLE)
def test_two_executions_never_share_a_workflow_id(
    one: tuple[str, str, int, int], other: tuple[str, str, int, int]
) -> None:
    assert (workflow_id(*one) == workflow_id(*other)) == (one == other)


def test_a_dot_in_a_process_name_does_not_move_into_the_key() -> None:
    assert workflow_id("a.b", "c", 1, 1) != workflow_id("a", "b.c", 1, 1)


def test_a_key_that_looks_like_a_digest_is_not_taken_for_one() -> None:
    assert safe_key("a b") == f"k-{short_digest('a b')}"
    assert safe_key(safe_key("a b")) != safe_key("a b")


def test_a_readable_key_stays_readable() -> None:
    assert (
        workflow_id("partner-onboarding", "12345-companies-77", 2, 3) == "partner-onboarding.12345-companies-77.r2.e3"
    )


def test_c15_a_subject_key_keeps_every_digit_and_tells_types_apart() -> None:
    subject = SubjectRef("hubspot", "12345", "companies", "9007199254740993")
    assert subject_key(subject) == "12345-companies-9007199254740993"
    assert subject_key(replace(subject, object_type="contacts")) != subject_key(subject)
    assert str(subject) == "hubspot:12345:companies:9007199254740993"


CREATE = OperationIdentity("request-1", "create-account")
CHANGES: dict[str, dict[str, object]] = {
    "request": {"request_id": "request-2"},
    "step": {"step": "verification-task"},
    "item": {"item": "item-1"},
    "generation": {"generation": 2},
    "version": {"version": 1},
    "reversal": {"reverses": "op-x"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_each_part_of_an_operation_changes_its_key(change: dict[str, object]) -> None:
    assert operation_key(replace(CREATE, **change)) != operation_key(CREATE)  # type: ignore[arg-type]


def test_c59_the_same_operation_has_the_same_key_in_every_process_and_release() -> None:
    assert operation_key(OperationIdentity("request-1", "create-account")) == "op-vztu56p3tt7xgthkmbamztege7"


@EXAMPLES
@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_an_operation_key_fits_every_provider(request: str, step: str, item: str) -> None:
    key = operation_key(OperationIdentity(request, step, item))
    assert re.fullmatch(r"op-[a-z2-7]{26}", key)
    assert len(key) <= 64


TEXTS = st.text(st.sampled_from("a1:"), max_size=3)
LISTS_OF_PARTS = st.lists(TEXTS, max_size=4)


@EXAMPLES
@given(LISTS_OF_PARTS, LISTS_OF_PARTS)
def test_digests_of_different_part_lists_differ(one: list[str], other: list[str]) -> None:
    assert (short_digest(*one) == short_digest(*other)) == (one == other)
