"""Actors with a token in hand."""

from __future__ import annotations

from dataclasses import dataclass

from store_builder import Book

from business_store.actors import Actor, issue_token


@dataclass(frozen=True)
class Who:
    """An actor and the secret of its token."""

    actor: Actor
    token: str


def with_token(book: Book, name: str, *roles: str) -> Who:
    """A new person with these roles and a token."""
    actor = book.person(name, *roles)
    return Who(actor, book.store.write(lambda connection: issue_token(connection, actor.id))[1])
