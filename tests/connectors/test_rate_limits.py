"""C62: how long everybody pauses after a limit that no Retry-After measures, as HubSpot and Stripe name it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import hubspot_answers, hubspot_limits, stripe_answers, stripe_limits
from connectors.retry_after import USUAL_CAP
from connectors.transport import Reply
from domain.signals import Signal

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
RECORDED = Path(__file__).parents[1] / "fixtures" / "outbound" / "hubspot_429.response.json"
INTERVAL, LEFT = "x-hubspot-ratelimit-interval-milliseconds", "x-hubspot-ratelimit-daily-remaining"
SECOND, TEN = timedelta(seconds=1), timedelta(seconds=10)


def hubspot(policy: object = "TEN_SECONDLY_ROLLING", *headers: tuple[str, str], status: int = 429) -> Reply:
    return Reply(status, headers, json.dumps({"status": "error", "policyName": policy}).encode())


def stripe(reason: str = "", code: str = "rate_limit", *headers: tuple[str, str]) -> Reply:
    named = ((stripe_limits.REASON, reason),) if reason else ()
    return Reply(429, (*named, *headers), json.dumps({"error": {"code": code}}).encode())


@pytest.mark.parametrize(
    ("reply", "pause"),
    [
        (hubspot("TEN_SECONDLY_ROLLING", ("retry-after", "3"), (INTERVAL, "10000")), timedelta(seconds=3)),
        (hubspot("TEN_SECONDLY_ROLLING", ("retry-after", "soon"), (INTERVAL, "20000")), 2 * TEN),
        (hubspot("TEN_SECONDLY_ROLLING", (INTERVAL, "11000"), (LEFT, "249000")), timedelta(seconds=11)),
        (hubspot("TEN_SECONDLY_ROLLING", (INTERVAL, "9999999999")), USUAL_CAP),
        (hubspot("TEN_SECONDLY_ROLLING", (INTERVAL, "9" * 400)), TEN),
        *[(hubspot("TEN_SECONDLY_ROLLING", (INTERVAL, text)), TEN) for text in ("", "-1", "0", "1e4", "٣", "10 s")],
        (hubspot("TEN_SECONDLY_ROLLING"), TEN),
        (hubspot("SECONDLY", (INTERVAL, "10000")), SECOND),
        (hubspot("DAILY", (INTERVAL, "10000")), USUAL_CAP),
        (hubspot("SECONDLY", (LEFT, "0")), USUAL_CAP),
        (hubspot(7), TEN),
        (Reply(429, (), b"<html>"), TEN),
        (hubspot(status=423), None),
        (hubspot("TEN_SECONDLY_ROLLING", ("retry-after", "86400"), status=477), timedelta(hours=24)),
    ],
)
def test_c62_a_pause_as_hubspot_names_it(reply: Reply, pause: timedelta | None) -> None:
    assert hubspot_limits.pause_of(reply, NOW) == pause


@pytest.mark.parametrize(
    ("reply", "pause"),
    [
        (stripe("global-rate"), SECOND),
        (stripe("endpoint-concurrency"), SECOND),
        (stripe("something-new"), SECOND),
        (stripe(), SECOND),
        (stripe("global-rate", "rate_limit", ("retry-after", "4")), timedelta(seconds=4)),
        (stripe("resource-specific"), None),
        (stripe("", "lock_timeout"), None),
        (Reply(429, (), b"<html>"), SECOND),
        (Reply(409, (), b"{}"), None),
    ],
)
def test_c62_a_pause_as_stripe_names_it(reply: Reply, pause: timedelta | None) -> None:
    assert stripe_limits.pause_of(reply, NOW) == pause


def test_c62_a_send_that_meets_a_limit_carries_the_pause() -> None:
    recorded = Reply(429, ((INTERVAL, "10000"),), RECORDED.read_bytes())
    refused = hubspot_answers.classified(recorded, NOW, lambda reply, value: pytest.fail("no success"))
    assert (refused.signal, refused.code, refused.refused) == (Signal.THROTTLED, "ten_secondly_rolling", True)
    assert refused.retry_after == TEN
    assert stripe_answers.classified(stripe("global-rate"), b"", NOW).retry_after == SECOND


any_headers = st.lists(
    st.tuples(st.sampled_from(["retry-after", INTERVAL, LEFT, stripe_limits.REASON]), st.text(max_size=30)), max_size=5
)


@pytest.mark.parametrize("pause_of", [hubspot_limits.pause_of, stripe_limits.pause_of])
@given(headers=any_headers, body=st.binary(max_size=30))
def test_c62_no_header_and_no_body_is_a_failure(
    pause_of: Callable[[Reply, datetime], timedelta | None], headers: list[tuple[str, str]], body: bytes
) -> None:
    pause = pause_of(Reply(429, tuple(headers), body), NOW)
    assert pause is not None
    assert timedelta(0) <= pause <= USUAL_CAP
