"""Actors: stable ids, roles, hashed tokens, and the CRM users that stand for them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from domain.errors import InvalidInput, NotAuthenticated, NotFound

ROLES = ("operator", "reviewer", "supervisor", "admin")
KNOWN = ("person", "service")
"""Kinds of actors that may have roles, and that a CRM user may turn out to be."""
READERS = frozenset(ROLES)
"""Roles that may read the inputs themselves."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who may act. `person` is the human behind it: decisions are compared by person."""

    id: str
    kind: str
    name: str
    active: bool
    person: str
    roles: frozenset[str]


LOAD = """
    SELECT a.id, a.kind, a.name, a.active, person_behind(a.id) AS person,
        coalesce((SELECT array_agg(role) FROM actor_role WHERE actor_id = a.id), '{{}}') AS roles
    FROM actor a {where}
"""
BY_ID = text(LOAD.format(where="WHERE a.id = :id"))
BY_TOKEN = text(
    LOAD.format(where="JOIN api_token t ON t.actor_id = a.id WHERE t.secret_sha256 = :digest AND t.revoked_at IS NULL")
)
ALL = text(LOAD.format(where="ORDER BY a.id"))


def _actor(row: Row[Any]) -> Actor:
    return Actor(row.id, row.kind, row.name, row.active, row.person, frozenset(row.roles))


def actor(connection: Connection, actor_id: str) -> Actor:
    """The actor. Raises NotFound."""
    row = connection.execute(BY_ID, {"id": actor_id}).first()
    if row is None:
        raise NotFound("actor", actor_id)
    return _actor(row)


def actors(connection: Connection) -> list[Actor]:
    """Everybody, by id."""
    return [_actor(row) for row in connection.execute(ALL)]


def add_actor(connection: Connection, actor_id: str, kind: str, name: str, acts_for: str | None = None) -> Actor:
    """Insert a person, or a service that acts for one. Raises InvalidInput when the id is taken or bad."""
    if not actor_id.isprintable() or not actor_id.strip() or ":" in actor_id or len(actor_id) > 100:
        raise InvalidInput("id", "1 to 100 printable characters without ':'")
    if acts_for is not None and (kind != "service" or actor(connection, acts_for).kind != "person"):
        raise InvalidInput("acts_for", "a person, for whom a service acts")
    added = connection.execute(
        text(
            "INSERT INTO actor (id, kind, name, acts_for) VALUES (:id, :kind, :name, :acts_for)"
            " ON CONFLICT DO NOTHING RETURNING id"
        ),
        {"id": actor_id, "kind": kind, "name": name, "acts_for": acts_for},
    ).first()
    if added is None:
        raise InvalidInput("id", f"an id that nobody has had: {actor_id!r} is taken")
    return actor(connection, actor_id)


def deactivate(connection: Connection, actor_id: str) -> Actor:
    """A leaver may do nothing any more; the id is never given to anybody else."""
    connection.execute(text("UPDATE actor SET active = false WHERE id = :id"), {"id": actor_id})
    return actor(connection, actor_id)


def grant(connection: Connection, actor_id: str, role: str) -> Actor:
    """Give a role to a person or service. A placeholder gets none: nobody has proved to be that CRM user."""
    found = actor(connection, actor_id)
    if role not in ROLES:
        raise InvalidInput("role", f"one of {', '.join(ROLES)}")
    if found.kind not in KNOWN:
        raise InvalidInput("id", "a person or a service: link the CRM user to one first")
    connection.execute(
        text("INSERT INTO actor_role (actor_id, role) VALUES (:id, :role) ON CONFLICT DO NOTHING"),
        {"id": actor_id, "role": role},
    )
    return actor(connection, actor_id)


def revoke(connection: Connection, actor_id: str, role: str) -> Actor:
    """Take a role away."""
    connection.execute(
        text("DELETE FROM actor_role WHERE actor_id = :id AND role = :role"), {"id": actor_id, "role": role}
    )
    return actor(connection, actor_id)


def identified(connection: Connection, identity: str, name: str = "") -> str:
    """The actor id of an outside identity such as `hubspot:61000001`; an unmapped one becomes a placeholder."""
    known = connection.execute(
        text("SELECT actor_id FROM actor_identity WHERE identity = :i"), {"i": identity}
    ).scalar()
    if known is not None:
        return str(known)
    connection.execute(
        text("INSERT INTO actor (id, kind, name) VALUES (:i, 'placeholder', :name) ON CONFLICT DO NOTHING"),
        {"i": identity, "name": name or identity},
    )
    connection.execute(
        text("INSERT INTO actor_identity (identity, actor_id) VALUES (:i, :i) ON CONFLICT DO NOTHING"), {"i": identity}
    )
    return str(
        connection.execute(
            text("SELECT actor_id FROM actor_identity WHERE identity = :i"), {"i": identity}
        ).scalar_one()
    )


IDENTIFIED = text("SELECT identity, actor_id FROM actor_identity WHERE identity = ANY(:identities)")


def identified_all(connection: Connection, identities: Collection[str]) -> dict[str, str]:
    """The actor ids of these outside identities."""
    if not identities:
        return {}
    known: dict[str, str] = dict(connection.execute(IDENTIFIED, {"identities": list(identities)}).all())
    return known | {each: identified(connection, each) for each in sorted(identities) if each not in known}


def link(connection: Connection, actor_id: str, identity: str) -> Actor:
    """Say that a CRM user is this actor: everything the CRM user made or asked for becomes theirs.

    Raises InvalidInput when the identity is another person's already.
    """
    system, _, user = identity.partition(":")
    if not system or not user:
        raise InvalidInput("identity", "SYSTEM:USER, such as hubspot:61000001")
    found = actor(connection, actor_id)
    if found.kind not in KNOWN:
        raise InvalidInput("id", "a person or a service: no CRM user is another one")
    holder = actor(connection, identified(connection, identity))
    if holder.kind != "placeholder" and holder.person != found.person:
        raise InvalidInput("identity", f"a CRM user that is nobody else's: {identity} is {holder.id}")
    if holder.kind == "placeholder":
        connection.execute(
            text("UPDATE actor SET merged_into = :id WHERE id = :holder AND merged_into IS NULL"),
            {"id": actor_id, "holder": holder.id},
        )
    connection.execute(
        text("UPDATE actor_identity SET actor_id = :id, linked_at = clock_timestamp() WHERE identity = :identity"),
        {"id": actor_id, "identity": identity},
    )
    return actor(connection, actor_id)


def digest(secret: str) -> bytes:
    """What is kept of a token: its 32 random bytes need no salt."""
    return hashlib.sha256(secret.encode()).digest()


def issue_token(connection: Connection, actor_id: str) -> tuple[str, str]:
    """A new token of this actor: its id, and the secret that is shown once and never stored."""
    actor(connection, actor_id)
    token_id, secret = f"tok-{secrets.token_hex(6)}", f"cf_{secrets.token_urlsafe(32)}"
    connection.execute(
        text("INSERT INTO api_token (id, actor_id, secret_sha256) VALUES (:id, :actor, :digest)"),
        {"id": token_id, "actor": actor_id, "digest": digest(secret)},
    )
    return token_id, secret


def revoke_token(connection: Connection, token_id: str) -> None:
    """End a token. Raises NotFound."""
    ended = connection.execute(
        text("UPDATE api_token SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = :id RETURNING id"),
        {"id": token_id},
    ).first()
    if ended is None:
        raise NotFound("token", token_id)


def authenticated(connection: Connection, secret: str) -> Actor:
    """The active actor whose token this is. Raises NotAuthenticated."""
    row = connection.execute(BY_TOKEN, {"digest": digest(secret)}).first()
    if row is None or not row.active:
        raise NotAuthenticated("the token is not known, was revoked, or belongs to nobody active")
    return _actor(row)
