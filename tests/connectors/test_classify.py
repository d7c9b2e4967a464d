"""Codes and excerpts that cannot repeat what somebody wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.classify import doubtful, excerpt, json_object, machine_code
from connectors.transport import Reply
from domain.signals import Doubt

HTML = ("content-type", "text/html; charset=utf-8")
NAME, IBAN = "Hans Meier", "DE89370400440532013000"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(502, (HTML,), b"<html><title>502 Bad Gateway</title>"), "text/html, 36 bytes, <html> 502 bad gateway"),
        (Reply(200, (HTML,), f"<title>{NAME}</title> {IBAN}".encode()), "text/html, 48 bytes, <title>"),
        (Reply(200, (("content-type", "application/json"),), b'{"name": "x"}'), "application/json, 13 bytes, json"),
        (Reply(200, (("content-type", NAME),), b""), "untyped, 0 bytes"),
        (Reply(200, (), b"\xff\xfe<html>", "cut"), "untyped, 8 bytes, <html>, cut"),
    ],
)
def test_c54_excerpt_says_what_it_was_and_not_what_it_said(reply: Reply, expected: str) -> None:
    assert excerpt(reply) == expected


@given(st.text(), st.text(), st.sampled_from(["{}", "<html><title>{}</title>", '{{"error": "{}"}}']))
def test_no_text_of_a_body_or_type_survives_in_an_excerpt(around: str, media: str, form: str) -> None:
    body = form.format(f"{around}{NAME} {IBAN}").encode("utf-8", "replace")
    shown = excerpt(Reply(200, (("content-type", f"{media}{IBAN}/{NAME}"),), body))
    assert NAME not in shown
    assert IBAN not in shown
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("account_number_invalid", "account_number_invalid"),
        ("VALIDATION_ERROR", "validation_error"),
        ("external_account[account_number]", "external_account[account_number]"),
        (NAME, "unlisted"),
        (IBAN, "unlisted"),
        ("x" * 81, "unlisted"),
        ("line\n", "unlisted"),
        (None, "unlisted"),
        (7, "unlisted"),
    ],
)
def test_codes_are_codes_or_unlisted(value: object, code: str) -> None:
    assert machine_code(value) == code


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"x"', b"nul", b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 100_000, b"9" * 5000]
)
def test_c53_body_that_is_no_object_is_unreadable(body: bytes) -> None:
    assert json_object(body) is None


@pytest.mark.parametrize(
    ("status", "defect", "doubt"),
    [
        (200, "", Doubt.UNREADABLE),
        (200, "cut", Doubt.NO_ANSWER),
        (200, "timeout", Doubt.NO_ANSWER),
        (200, "too_large", Doubt.UNREADABLE),
        (500, "cut", Doubt.SERVER_ERROR),
        (404, "", Doubt.CLIENT_ERROR),
        (304, "", Doubt.REDIRECT),
        (101, "", Doubt.REDIRECT),
    ],
)
def test_doubt_follows_status_and_wholeness(status: int, defect: str, doubt: Doubt) -> None:
    answer = doubtful(Reply(status, defect=defect))
    assert (answer.doubt, answer.http_status) == (doubt, status)
