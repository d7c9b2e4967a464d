"""What only a bare socket can produce, and the proof of what left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event

import pytest
from raw_server import Peer, closed_port, raw_server
from sandboxes import ROOT

from connectors.transport import Lost, Reply, Request, Transport, segment
from domain.errors import InvalidInput
from domain.ports import Until

WITHIN = timedelta(seconds=60)
SOON = timedelta(seconds=1.5)
"""Time to connect and to send in, on any machine, and not to hear all that drips."""
POST = Request("POST", "/things", body=b"iban=DE89370400440532013000")
GET = Request("GET", "/things")
SECRET = "sk_test_never_shown"
DRIPS = 100
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def transport(url: str) -> Transport:
    return Transport(url, SECRET)


def hangs_up(peer: Peer) -> None:
    peer.request()


def drips(before: bytes) -> Callable[[Peer], None]:
    """A byte now and then, each far within any timeout per read; whole in the end if nobody cuts it."""
    pause = Event()

    def behave(peer: Peer) -> None:
        peer.request()
        whole = HEAD % DRIPS + b"x" * DRIPS
        peer.write(before)
        for byte in whole[len(before) :]:
            pause.wait(0.1)
            peer.write(bytes((byte,)))

    return behave


def test_c56_a_post_whose_server_hangs_up_is_one_request_in_doubt() -> None:
    with raw_server(hangs_up) as server:
        assert transport(server.url).write(POST, WITHIN) == Lost("connection_lost", sent=True)
    assert (len(server.requests), server.connections) == (1, 1)


def test_c56_a_read_whose_server_hangs_up_is_not_repeated_either() -> None:
    with raw_server(hangs_up) as server:
        assert isinstance(transport(server.url).read(GET, WITHIN), Lost)
    assert len(server.requests) == 1


def test_c56_an_idle_connection_closed_by_the_server_never_puts_a_write_in_doubt() -> None:
    def answers_once(peer: Peer) -> None:
        peer.request()
        peer.answer(b"{}", 200, "Connection: keep-alive")

    with raw_server(answers_once) as server:
        ours = transport(server.url)
        for send in (ours.read, ours.write, ours.write, ours.read):
            reply = send(POST, WITHIN)
            assert isinstance(reply, Reply)
            assert reply.body == b"{}"
            server.wait_closed()
        ours.close()
    assert len(server.requests) == 4


def test_reads_share_a_connection_and_writes_do_not() -> None:
    def answers(peer: Peer) -> None:
        while True:
            peer.request()
            peer.answer(b"{}")

    with raw_server(answers) as server:
        ours = transport(server.url)
        for send in (ours.read, ours.read, ours.write, ours.write):
            assert isinstance(send(GET, WITHIN), Reply)
        ours.close()
    assert server.connections == 3


def test_refused_connection_is_proof_that_nothing_left() -> None:
    with closed_port() as address:
        assert transport(f"http://{address}").write(POST, WITHIN) == Lost("connect_failed", sent=False)


def test_failed_tls_handshake_is_proof_that_nothing_left() -> None:
    def speaks_plainly(peer: Peer) -> None:
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw_server(speaks_plainly) as server:
        assert transport(f"https://{server.address}").write(POST, WITHIN) == Lost("connect_failed", sent=False)
    assert server.requests == []


def test_a_process_that_stood_still_until_it_was_too_late_sends_nothing() -> None:
    with raw_server(hangs_up) as server:
        assert transport(server.url).write(POST, Until(time.monotonic())) == Lost("connect_timeout", sent=False)
    assert server.requests == []


def test_time_used_up_before_the_first_byte_sends_nothing() -> None:
    with raw_server(hangs_up) as server:
        assert transport(server.url).write(POST, timedelta(0)) == Lost("connect_timeout", sent=False)
    assert server.requests == []


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200"])
def test_dripping_head_is_cut_at_the_total_timeout(before: bytes) -> None:
    with raw_server(drips(before)) as server:
        assert transport(server.url).write(POST, SOON) == Lost("timeout", sent=True)


def test_dripping_body_is_cut_at_the_total_timeout() -> None:
    with raw_server(drips(HEAD % DRIPS)) as server:
        reply = transport(server.url).read(GET, SOON)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.defect) == (200, "timeout")
    assert len(reply.body) < DRIPS


def test_silent_server_is_a_timeout_in_doubt() -> None:
    done = Event()

    def says_nothing(peer: Peer) -> None:
        peer.request()
        done.wait(60)

    with raw_server(says_nothing) as server:
        assert transport(server.url).write(POST, SOON) == Lost("timeout", sent=True)
        done.set()


def test_cut_body_keeps_its_status() -> None:
    def cuts(peer: Peer) -> None:
        peer.request()
        peer.write(b'HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\n{"id"')

    with raw_server(cuts) as server:
        reply = transport(server.url).write(POST, WITHIN)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, reply.defect) == (500, b'{"id"', "cut")


def test_endless_body_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    def floods(peer: Peer) -> None:
        peer.request()
        peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    monkeypatch.setattr("connectors.transport.MAX_ANSWER", 10_000)
    with raw_server(floods) as server:
        reply = transport(server.url).read(GET, WITHIN)
    assert isinstance(reply, Reply)
    assert (len(reply.body), reply.defect) == (10_000, "too_large")


def test_nonsense_instead_of_http_is_in_doubt() -> None:
    def babbles(peer: Peer) -> None:
        peer.request()
        peer.write(b"\x00\x01 SSH-2.0 what?\r\n\r\n")

    with raw_server(babbles) as server:
        assert transport(server.url).write(POST, WITHIN) == Lost("connection_lost", sent=True)


def test_redirect_is_an_answer_and_is_not_followed() -> None:
    def redirects(peer: Peer) -> None:
        peer.request()
        peer.answer(b"", 307, "Location: /elsewhere")

    with raw_server(redirects) as server:
        reply = transport(server.url).write(POST, WITHIN)
    assert isinstance(reply, Reply)
    assert reply.status == 307
    assert len(server.requests) == 1


def test_request_carries_the_credential_and_the_exact_bytes() -> None:
    def answers(peer: Peer) -> None:
        peer.request()
        peer.answer(b"{}")

    path = f"/v1/{segment('../a?b#c d')}"
    with raw_server(answers) as server:
        transport(f"{server.url}/base/").write(Request("POST", path, (("q", "ä&"),), POST.body), WITHIN)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /base/v1/..%2Fa%3Fb%23c%20d?q=%C3%A4%26 HTTP/1.1"
    assert f"Authorization: Bearer {SECRET}".encode() in lines
    assert f"Host: {server.address}".encode() in lines
    assert body == POST.body


@pytest.mark.parametrize("secret", ["", "two words", "line\nbreak", "schlüssel"])
def test_unusable_credential_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Transport("http://127.0.0.1", secret)
    assert not secret or secret not in str(refused.value.as_dict())


@pytest.mark.parametrize("url", ["", "example.test", "ftp://example.test", "http://u:p@example.test", "http://a?b=c"])
def test_unusable_base_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="base_url"):
        Transport(url, SECRET)


TELLS_ALL = """
import logging, sys
from datetime import timedelta
from connectors.transport import Request, Transport

logging.basicConfig(level=logging.DEBUG)
url, secret, body = sys.argv[1:]
ours, post = Transport(url, secret), Request("POST", "/v1/things", body=body.encode())
print(repr(ours), repr(post), repr(ours.write(post, timedelta(seconds=60))))
"""


def test_neither_credential_nor_body_reaches_log_or_repr() -> None:
    """In a process of its own, whose loggers nobody has set up otherwise."""
    body = '{"iban": "DE89370400440532013000"}'

    def answers(peer: Peer) -> None:
        peer.request()
        peer.answer(body.encode())

    with raw_server(answers) as server:
        command = [sys.executable, "-c", TELLS_ALL, server.url, SECRET, body]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "send_request_body" in told.stderr
    assert "Reply" in told.stdout
    assert SECRET not in told.stdout + told.stderr
    assert "DE89370400440532013000" not in told.stdout + told.stderr
