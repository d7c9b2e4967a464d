"""One suite for every operation of every connector: each fault of the API becomes the right answer and finding.

`Made.send` also checks for each send that the server received exactly one request.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
from connector_cases import BRIEF, IBAN, KEY, WITHIN, Made
from eventually import eventually
from raw_server import Peer, closed_port, raw_server

from connectors.hubspot import HubSpot
from connectors.stripe import Stripe
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Connector, Crm, Send, Sought, Until
from domain.signals import Doubt, Found, Signal


def test_connectors_have_the_ports(stripe: Stripe, hubspot: HubSpot) -> None:
    connectors: tuple[Connector, Crm] = (stripe, hubspot)
    assert [connector.system for connector in connectors] == ["stripe", "hubspot"]


def test_contracts_are_declared_in_order(made: Made) -> None:
    declared = made.connector.contracts(made.case.operation)
    assert tuple(map(type, declared)) == made.case.kinds


def test_key_longer_than_the_api_takes_is_refused_before_anything_is_stored(made: Made) -> None:
    longest = [each.key.longest for each in made.connector.contracts(made.case.operation) if hasattr(each, "key")]
    for limit in longest:
        with pytest.raises(InvalidInput, match="key"):
            made.connector.render(made.case.operation, "k" * (limit + 1), made.fields)


def test_unknown_operation_is_refused(made: Made) -> None:
    with pytest.raises(InvalidInput, match="operation"):
        made.connector.contracts("drop_table")


def test_c59_rendering_is_the_same_bytes_whatever_the_order_of_the_fields(made: Made) -> None:
    backwards = dict(reversed(made.fields.items()))
    assert made.connector.render(made.case.operation, KEY, backwards) == made.content


def test_accepted_send_is_found_and_read_back(made: Made) -> None:
    answer = made.send()
    assert answer.signal is Signal.ACCEPTED
    assert made.ours() == [answer.reference]
    assert made.probe().found is made.case.seen(Found.ONE)
    finding = made.probe(answer.reference)
    assert (finding.found, finding.reference) == (Found.ONE, answer.reference)
    read = made.connector.read_back(made.case.operation, str(answer.reference))
    expected = {name: value for name, value in made.fields.items() if name not in ("iban", "body", "run_id")}
    assert expected.items() <= read.items()
    assert read["operation_key"] == KEY


def test_absent_record_is_none_and_cannot_be_read_back(made: Made) -> None:
    made.since -= timedelta(days=1)
    assert made.probe().found is made.case.seen(Found.NONE)
    assert made.probe("999").found is Found.NONE
    with pytest.raises(ReadFailed) as failed:
        made.connector.read_back(made.case.operation, "999")
    assert failed.value.fields["reason"] == "absent"


def test_c48_c56_answer_lost_after_the_commit_is_one_request_in_doubt(made: Made) -> None:
    made.fault("drop_after_commit")
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.NO_ANSWER)
    assert made.probe().found is made.case.seen(Found.ONE)
    assert len(made.ours()) == 1


def test_c48_timeout_after_the_commit(made: Made) -> None:
    made.fault("slow_after", seconds=3)
    answer = made.send(BRIEF)
    assert (answer.signal, answer.doubt, answer.code) == (Signal.UNKNOWN, Doubt.NO_ANSWER, "timeout")
    assert eventually(made.ours)
    assert made.probe().found is made.case.seen(Found.ONE)


@pytest.mark.parametrize("fault", ["refuse", "drop_before"])
def test_c48_connection_closed_before_execution_is_in_doubt_too(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.NO_ANSWER)
    assert made.probe().found is made.case.seen(Found.NONE)
    assert made.ours() == []


@pytest.mark.parametrize("fault", ["commit_500", "commit_502_html", "commit_503_retry_after", "commit_504_empty"])
def test_c49_server_error_after_the_commit(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.SERVER_ERROR)
    assert answer.http_status == int(fault.split("_")[1])
    assert made.probe().found is made.case.seen(Found.ONE)


@pytest.mark.parametrize("fault", ["error_500_before", "error_500_empty"])
def test_c49_server_error_before_the_commit(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.SERVER_ERROR)
    assert made.probe().found is made.case.seen(Found.NONE)


@pytest.mark.parametrize("fault", ["empty_object", "body_status_error"])
def test_c53_success_without_the_documented_fields(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt, answer.http_status) == (Signal.UNKNOWN, Doubt.UNREADABLE, 200)
    assert answer.reference is None
    assert made.probe().found is made.case.seen(Found.ONE if fault == "empty_object" else Found.NONE)


@pytest.mark.parametrize("fault", ["id_null", "id_empty", "wrong_record"])
def test_c53_success_with_no_id_or_with_another_partners_record(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt, answer.reference) == (Signal.UNKNOWN, Doubt.UNREADABLE, None)
    finding = made.probe()
    assert (finding.found, [finding.reference]) == (
        made.case.seen(Found.ONE),
        made.ours() if made.case.looks_up else [None],
    )


@pytest.mark.parametrize("fault", ["html_200", "json_content_type_with_html"])
def test_c54_html_instead_of_json(made: Made, fault: str) -> None:
    made.fault(fault)
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.UNREADABLE)
    assert "<!doctype html>" in answer.excerpt
    assert "Something went wrong" not in answer.excerpt


def test_c54_firewall_page(made: Made) -> None:
    made.fault("html_403")
    answer = made.send()
    assert (answer.signal, answer.doubt, answer.http_status) == (Signal.UNKNOWN, Doubt.CLIENT_ERROR, 403)
    assert answer.excerpt.startswith("text/html, ")


@pytest.mark.parametrize(
    "fault",
    ["html_200", "json_content_type_with_html", "html_403", "error_500_before", "drop_before", "body_status_error"],
)
def test_c54_look_up_that_saw_nothing_is_no_absence(made: Made, fault: str) -> None:
    accepted = made.send()
    made.lookups_meet(fault)
    for reference in (None, accepted.reference):
        finding = made.probe(reference)
        assert (finding.found, finding.reference) == (Found.FAILED, None)
    with pytest.raises(ReadFailed):
        made.connector.read_back(made.case.operation, str(accepted.reference))


def test_c54_not_found_page_of_something_in_between_is_no_absence(made: Made) -> None:
    def proxy(peer: Peer) -> None:
        while True:
            peer.request()
            peer.answer(b"<html><title>404 Not Found</title></html>", 404)

    sought = Sought(made.case.operation, KEY, made.content, made.since, "999")
    with raw_server(proxy) as server, closing(made.case.connect(server.url)) as connector:
        finding = connector.probe(sought)
    assert (finding.found, finding.code) == (Found.FAILED, "http_404")


def test_c54_body_cut_off(made: Made) -> None:
    made.fault("commit_cut_body")
    answer = made.send()
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.NO_ANSWER)
    assert made.probe().found is made.case.seen(Found.ONE)


def test_redirect_is_not_followed(made: Made) -> None:
    made.fault("commit_redirect")
    answer = made.send()
    assert (answer.signal, answer.doubt, answer.http_status) == (Signal.UNKNOWN, Doubt.REDIRECT, 302)


def test_c62_rate_limit_is_a_refusal_with_its_wait(made: Made) -> None:
    made.fault("throttle_429", retry_after=["0.5", "nonsense", "99999999"])
    answer = made.send()
    assert (answer.signal, answer.refused, answer.retry_after) == (
        Signal.THROTTLED,
        made.case.refuses,
        timedelta(minutes=15),
    )
    assert made.probe().found is made.case.seen(Found.NONE)


WINDOWS = {"stripe": timedelta(seconds=1), "hubspot": timedelta(seconds=10), "practice": None}


def test_c62_rate_limit_whose_answer_says_in_its_own_words_how_long(made: Made) -> None:
    made.fault("throttle_429")
    assert made.send().retry_after == WINDOWS[made.case.system]


def test_c62_look_up_refused_by_a_rate_limit(made: Made) -> None:
    made.lookups_meet("throttle_429")
    finding = made.probe("999")
    assert (finding.found, finding.code, finding.retry_after) == (Found.FAILED, "throttled", WINDOWS[made.case.system])


def test_look_up_with_a_refused_credential_says_so(made: Made) -> None:
    with closing(made.case.connect(made.sandbox.base_url, "sk_revoked")) as stranger:
        finding = stranger.probe(Sought(made.case.operation, KEY, made.content, made.since, "999"))
    assert (finding.found, finding.code) == (Found.FAILED, "unauthenticated")


def test_rejected_credential_is_not_a_rejected_intent(made: Made) -> None:
    with closing(made.case.connect(made.sandbox.base_url, "sk_revoked")) as stranger:
        answer = stranger.send(Send(made.case.operation, KEY, made.content, WITHIN))
    assert (answer.signal, answer.code, answer.http_status) == (Signal.NOT_SENT, "unauthenticated", 401)
    assert answer.refused
    assert made.ours() == []


def test_refused_connection_is_not_sent(made: Made) -> None:
    with closed_port() as address, closing(made.case.connect(f"http://{address}")) as connector:
        answer = connector.send(Send(made.case.operation, KEY, made.content, WITHIN))
    assert (answer.signal, answer.code) == (Signal.NOT_SENT, "connect_failed")


def test_a_request_whose_time_is_over_is_not_sent(made: Made) -> None:
    answer = made.connector.send(Send(made.case.operation, KEY, made.content, Until(time.monotonic())))
    assert (answer.signal, answer.code) == (Signal.NOT_SENT, "connect_timeout")
    assert made.writes() == []


def test_c64_attempt_that_overlaps_its_own_retry(made: Made) -> None:
    made.fault("slow_before", seconds=1.5)
    request = Send(made.case.operation, KEY, made.content, WITHIN)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(made.connector.send, request)
        assert eventually(made.writes)
        second = made.connector.send(request)
        answers = {first.result().signal, second.signal}
    assert Signal.ACCEPTED in answers
    assert answers <= {Signal.ACCEPTED, Signal.BUSY, Signal.EXISTS}
    assert_as_guarded(made)


def test_c59_repeat_of_the_same_bytes_makes_no_second_record(made: Made) -> None:
    first, second = made.send(), made.send()
    assert second.signal in (Signal.ACCEPTED, Signal.EXISTS)
    assert not made.case.guarded or second.reference in (first.reference, None)
    assert_as_guarded(made)


def assert_as_guarded(made: Made) -> None:
    """Without a guard the API has made two, and no look-up takes one of them for ours."""
    assert len(made.ours()) == (1 if made.case.guarded else 2)
    assert made.probe().found is made.case.seen(Found.ONE if made.case.guarded else Found.MANY)


def test_nothing_of_the_content_is_in_any_answer_or_finding(made: Made) -> None:
    shown = []
    for fault in ("html_403", "commit_500", "throttle_429", "body_status_error", "drop_before"):
        made.fault(fault)
        shown.append(repr(made.send()))
    shown.append(repr(made.probe()))
    private = [IBAN, "thwind", "partner731", "PRT-000731"]
    assert [word for word in private if word in " ".join(shown)] == []
