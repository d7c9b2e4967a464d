"""Runs whose account may be sent, permits asked for as often as it takes, and the answers that concern all runs."""

from __future__ import annotations

from datetime import timedelta

from store_builder import Book

from business_store.actors import Actor
from domain.operations import Granted
from domain.signals import Answer, Signal

REFUSED = Answer(Signal.NOT_SENT, "unauthenticated", refused=True, http_status=401)


def throttled(seconds: float) -> Answer:
    return Answer(Signal.THROTTLED, "rate_limit", retry_after=timedelta(seconds=seconds), refused=True)


def ready(book: Book, reviewer: Actor, count: int) -> list[str]:
    """Runs whose account may be sent."""
    runs = [book.accept_trigger(str(number)) for number in range(count)]
    for run_id in runs:
        book.approved(run_id, reviewer)
    return runs


def permitted(book: Book, run_id: str) -> Granted | None:
    given = book.ask_permit(book.call(run_id, "create-account"))[1]
    return given if isinstance(given, Granted) else None


def granted(book: Book, run_id: str) -> bool:
    return permitted(book, run_id) is not None
