"""The connector of docs/adding-a-connector.md against a server: what every connector must get right."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from badge_office import ISSUE, BadgeOffice
from badge_server import TOKEN, Office, badge_server
from raw_server import closed_port

from domain.contracts import Accept, ProbeAt, Reject, Resend, Settlement
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Connector, Send, Sought
from domain.recovery import settle
from domain.signals import Answer, Attempt, Doubt, Evidence, Finding, Found, Probe, RecordedAnswer, Signal

KEY = "op-bbbbbbbbbbbbbbbbbbbbbbbbbb"
FIELDS = {"holder": "Ärla Öberg", "colour": "blue"}
WITHIN = timedelta(seconds=5)
NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
LEASE = NOW + timedelta(seconds=25)


def connected(url: str, token: str = TOKEN) -> BadgeOffice:
    return BadgeOffice(url, token, settle=timedelta(0), read_within=WITHIN)


@pytest.fixture
def office() -> Iterator[Office]:
    with badge_server() as running:
        yield running


@pytest.fixture
def connector(office: Office) -> Iterator[BadgeOffice]:
    with closing(connected(office.url)) as made:
        yield made


def content(connector: Connector) -> bytes:
    return connector.render(ISSUE, KEY, FIELDS)


def sent(connector: Connector, fields: dict[str, str] | None = None) -> Answer:
    return connector.send(Send(ISSUE, KEY, connector.render(ISSUE, KEY, fields or FIELDS), WITHIN))


def sought(connector: Connector, reference: str | None = None) -> Finding:
    return connector.probe(Sought(ISSUE, KEY, content(connector), NOW, reference))


def settled(connector: Connector, answer: Answer, *looks: Finding) -> Settlement:
    """What the kernel permits next after this answer and these look-ups."""
    attempt = Attempt(1, NOW, LEASE, (RecordedAnswer(answer, NOW),))
    probes = tuple(Probe(LEASE + timedelta(seconds=number), look) for number, look in enumerate(looks))
    return settle(connector.contracts(ISSUE), Evidence((attempt,), probes), LEASE + timedelta(minutes=1))


def test_accepted_is_found_and_read_back(office: Office, connector: BadgeOffice) -> None:
    answer = sent(connector)
    assert (answer.signal, answer.reference) == (Signal.ACCEPTED, "bdg_1")
    for reference in (None, "bdg_1"):
        assert sought(connector, reference) == Finding(Found.ONE, "found", "bdg_1")
    assert connector.read_back(ISSUE, "bdg_1") == FIELDS
    assert office.posts == [content(connector)]


def test_a_lost_answer_is_found_and_never_sent_again(office: Office, connector: BadgeOffice) -> None:
    office.fault = "lose"
    answer = sent(connector)
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.NO_ANSWER)
    assert isinstance(settled(connector, answer), ProbeAt)
    look = sought(connector)
    assert settled(connector, answer, look) == Accept("bdg_1")
    assert len(office.posts) == len(office.badges) == 1


def test_a_request_that_did_nothing_is_sent_again_only_after_a_look(office: Office, connector: BadgeOffice) -> None:
    office.fault = "drop"
    answer = sent(connector)
    assert answer.signal is Signal.UNKNOWN
    assert isinstance(settled(connector, answer), ProbeAt)
    look = sought(connector)
    assert look.found is Found.NONE
    assert isinstance(settled(connector, answer, look), Resend)


def test_a_refusal_is_definite(office: Office, connector: BadgeOffice) -> None:
    answer = sent(connector, {"holder": "nobody"})
    assert (answer.signal, answer.code) == (Signal.REJECTED, "holder_unknown")
    assert settled(connector, answer) == Reject("holder_unknown")
    assert office.badges == {}


def test_the_same_bytes_again_make_no_second_badge(office: Office, connector: BadgeOffice) -> None:
    sent(connector)
    again = sent(connector)
    assert (again.signal, again.reference) == (Signal.EXISTS, "bdg_1")
    assert len(office.badges) == 1


def test_a_badge_with_our_reference_and_other_content_is_not_ours(office: Office, connector: BadgeOffice) -> None:
    office.badges["bdg_9"] = {"id": "bdg_9", "reference": KEY, "holder": "Somebody Else", "colour": "blue"}
    assert sought(connector) == Finding(Found.FOREIGN, "other_holder", "bdg_9")


def test_a_server_error_leaves_the_outcome_open(office: Office, connector: BadgeOffice) -> None:
    office.fault = "break"
    answer = sent(connector)
    assert (answer.signal, answer.doubt) == (Signal.UNKNOWN, Doubt.SERVER_ERROR)
    assert sought(connector).found is Found.ONE


def test_a_look_up_that_saw_nothing_is_no_absence(office: Office, connector: BadgeOffice) -> None:
    office.fault = "blind"
    assert sought(connector) == Finding(Found.FAILED, "http_500")
    with pytest.raises(ReadFailed):
        connector.read_back(ISSUE, "bdg_1")


def test_a_rate_limit_says_how_long(office: Office, connector: BadgeOffice) -> None:
    office.fault = "throttle"
    answer = sent(connector)
    assert (answer.signal, answer.refused, answer.retry_after) == (Signal.THROTTLED, True, timedelta(seconds=7))


def test_a_wrong_token_and_a_refused_connection_are_not_sent(office: Office) -> None:
    with closed_port() as address, closing(connected(f"http://{address}")) as nowhere:
        assert sent(nowhere).signal is Signal.NOT_SENT
    with closing(connected(office.url, "wrong")) as stranger:
        assert sent(stranger).signal is Signal.NOT_SENT
    assert office.badges == {}


def test_an_operation_of_another_name_is_refused(connector: BadgeOffice) -> None:
    with pytest.raises(InvalidInput, match="operation"):
        connector.contracts("burn_badge")


def test_nothing_of_the_content_is_in_an_answer(office: Office, connector: BadgeOffice) -> None:
    office.fault = "break"
    assert "berg" not in repr([sent(connector), sought(connector)])
