"""Sending a trigger or a callback: the bytes of a file, signed as the sender would sign them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import httpx
import typer

from cli.answering import Answer, command
from cli.text import plain
from domain.errors import CounterfoilError, InvalidInput
from domain.identity import short_digest
from gateway.signatures import sign_hubspot_v3, sign_standard_webhook, sign_stripe
from settings import Settings, load_settings, several

SEND_SECONDS = 30.0
SHOWN_CHARACTERS = 2000


class Source(StrEnum):
    """Who is pretended to send it."""

    HUBSPOT = "hubspot"
    STANDARD_WEBHOOKS = "standard-webhooks"


class Provider(StrEnum):
    """Who is pretended to call back."""

    STRIPE = "stripe"


class GatewayUnreachable(CounterfoilError):
    """No answer came; whether it was taken in is not known. Sending the same file again is safe."""

    code = "gateway_unreachable"


def register(app: typer.Typer) -> None:
    """`trigger` and `callback`."""
    command(app)(trigger)
    command(app)(callback)


def trigger(
    file: Annotated[typer.FileBinaryRead, typer.Argument(metavar="FILE", help="The body, or - for standard input.")],
    source: Annotated[Source, typer.Option(help="Who is pretended to send it.")],
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where to, instead of the configured gateway.")] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="webhook-id of standard-webhooks; else made of the content.")
    ] = None,
) -> Answer:
    """Sign a file and send it to the gateway.

    Prints the answer; exits with 1 unless it is 2xx.
    """
    settings, body = load_settings(), file.read()
    headers = _signed(settings, source, body, message_id or f"msg_{short_digest(body.hex())}")
    return _sent(url or _address(settings, f"triggers/{source}"), body, headers)


def callback(
    file: Annotated[typer.FileBinaryRead, typer.Argument(metavar="FILE", help="The body, or - for standard input.")],
    source: Annotated[Provider, typer.Option(help="Who is pretended to call back.")],
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where to, instead of the configured gateway.")] = None,
) -> Answer:
    """Sign a provider's event and send it to the gateway.

    Prints the answer; exits with 1 unless it is 2xx.
    """
    settings, body = load_settings(), file.read()
    secrets = several(settings.stripe_webhook_secret)
    if not secrets:
        raise InvalidInput("COUNTERFOIL_STRIPE_WEBHOOK_SECRET", "set: the gateway takes nothing that is not signed")
    headers = sign_stripe(secrets[0], int(time.time()), body)
    return _sent(url or _address(settings, f"callbacks/{source}"), body, headers)


def _sent(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    answer = _post(url, body, headers)
    content = _content(answer)
    lines = [f"{answer.status_code} {answer.reason_phrase}", *_lines(content)]
    return Answer({"status": answer.status_code, "answer": content}, lines, ok=answer.is_success)


def _signed(settings: Settings, source: Source, body: bytes, message_id: str) -> dict[str, str]:
    """HubSpot signs over the configured URL, wherever the request is sent."""
    now = time.time()
    if source is Source.HUBSPOT:
        secret = several(settings.hubspot_client_secret)[0]
        return sign_hubspot_v3(secret, settings.hubspot_public_url, int(now * 1000), body)
    return sign_standard_webhook(several(settings.standard_webhooks_secret)[0], message_id, int(now), body)


def _address(settings: Settings, path: str) -> str:
    return f"{settings.public_url.rstrip('/')}/{path}"


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
    try:
        return httpx.post(
            url, content=body, headers={**headers, "Content-Type": "application/json"}, timeout=SEND_SECONDS
        )
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as lost:
        raise GatewayUnreachable(
            f"no answer from {url}: {type(lost).__name__}", next_actions=["send the same file again"], url=url
        ) from None


def _content(answer: httpx.Response) -> Any:  # noqa: ANN401 (any JSON document)
    try:
        return answer.json()
    except ValueError:
        return answer.text[:SHOWN_CHARACTERS]


def _lines(content: Any) -> list[str]:  # noqa: ANN401
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    return [plain(line) for line in text.splitlines()]
