"""The raw bytes of a request, never more of them than permitted and never decompressed."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from domain.errors import CounterfoilError

_PLAIN = frozenset({"", "identity"})


class BodyTooLarge(CounterfoilError):
    """The body is longer than `limit` bytes."""

    status = 413
    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"body: at most {limit} bytes", next_actions=("send a smaller batch",), limit=limit)


class EncodingRefused(CounterfoilError):
    """The body is compressed. Signatures cover the bytes as sent, and a small archive can hold a huge body."""

    status = 415
    code = "encoding_refused"

    def __init__(self) -> None:
        super().__init__("content-encoding: only identity", next_actions=("send the body uncompressed",))


class BodyCutShort(CounterfoilError):
    """The sender hung up before the end of the body; nothing was accepted."""

    status = 400
    code = "body_cut_short"

    def __init__(self) -> None:
        super().__init__("body: ended before it was complete", next_actions=("send it again",))


async def read_capped(request: Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes. Raises EncodingRefused, BodyTooLarge or BodyCutShort.

    A declared length is believed only to refuse: nothing is read then. What arrives is counted in any case.
    """
    _refuse_encoding(request.headers.getlist("content-encoding"))
    _refuse_declared(request.headers.getlist("content-length"), limit)
    try:
        return await _counted(request, limit)
    except ClientDisconnect:
        raise BodyCutShort from None


def _refuse_encoding(headers: list[str]) -> None:
    named = {name.strip().lower() for header in headers for name in header.split(",")}
    if not named <= _PLAIN:
        raise EncodingRefused


def _refuse_declared(headers: list[str], limit: int) -> None:
    if any(_exceeds(text.lstrip("0"), limit) for text in headers if text.isascii() and text.isdigit()):
        raise BodyTooLarge(limit)


def _exceeds(digits: str, limit: int) -> bool:
    return len(digits) > len(str(limit)) or int(digits or "0") > limit


async def _counted(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > limit:
            raise BodyTooLarge(limit)
        body += chunk
    return bytes(body)
