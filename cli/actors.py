"""Who may act: actors, roles, CRM users and tokens. For whoever holds the database address."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from business_store import actors as store_actors
from business_store.actors import Actor
from cli.answering import Answer, command
from cli.session import session
from cli.text import table
from domain.errors import InvalidInput
from gateway import hubspot_events, standard_webhooks

actor_app = typer.Typer(help="Who may act: people, services, roles, CRM users.", no_args_is_help=True)
token_app = typer.Typer(help="API tokens of actors.", no_args_is_help=True)

ActorId = Annotated[str, typer.Argument(metavar="ID", help="Stable id of the actor.")]
SYSTEMS = (hubspot_events.SYSTEM, standard_webhooks.SYSTEM)
"""Senders whose users are authors of requests; a misspelt one would link nobody and protect nothing."""


class Role(StrEnum):
    """The roles that can be granted."""

    OPERATOR = "operator"
    REVIEWER = "reviewer"
    SUPERVISOR = "supervisor"
    ADMIN = "admin"


RoleName = Annotated[Role, typer.Argument(metavar="ROLE")]


def register(app: typer.Typer) -> None:
    """`actor …` and `token …`."""
    app.add_typer(actor_app, name="actor")
    app.add_typer(token_app, name="token")


def _document(actor: Actor) -> dict[str, Any]:
    return {
        "actor": actor.id,
        "kind": actor.kind,
        "name": actor.name,
        "active": actor.active,
        "person": actor.person,
        "roles": sorted(actor.roles),
    }


def _listed(actors: list[Actor]) -> list[str]:
    rows = [(a.id, a.kind, a.name, a.active, a.person, ", ".join(sorted(a.roles))) for a in actors]
    return table(("ACTOR", "KIND", "NAME", "ACTIVE", "PERSON", "ROLES"), rows)


def _changed(work: Callable[[Connection], Actor]) -> Answer:
    with session() as parts:
        actor = parts.store.once(work)
    return Answer(_document(actor), _listed([actor]))


@command(actor_app)
def add(
    actor_id: ActorId,
    name: Annotated[str, typer.Option(help="Name that people read.")],
    service: Annotated[bool, typer.Option("--service", help="A program rather than a person.")] = False,
    acts_for: Annotated[str | None, typer.Option(metavar="ID", help="The person a service acts for.")] = None,
) -> Answer:
    """Add a person, or a service that acts for one."""
    if acts_for is not None and not service:
        raise InvalidInput("acts-for", "given with --service only: a person acts for nobody else")
    kind = "service" if service else "person"
    return _changed(lambda connection: store_actors.add_actor(connection, actor_id, kind, name, acts_for))


@command(actor_app, "list")
def list_() -> Answer:
    """Everybody, by id."""
    with session() as parts, parts.store.reading() as connection:
        found = store_actors.actors(connection)
    return Answer([_document(each) for each in found], _listed(found))


@command(actor_app)
def grant(actor_id: ActorId, role: RoleName) -> Answer:
    """Give a role."""
    return _changed(lambda connection: store_actors.grant(connection, actor_id, role.value))


@command(actor_app)
def revoke(actor_id: ActorId, role: RoleName) -> Answer:
    """Take a role away."""
    return _changed(lambda connection: store_actors.revoke(connection, actor_id, role.value))


@command(actor_app)
def deactivate(actor_id: ActorId) -> Answer:
    """End all rights of a leaver; the id is never given to anybody else."""
    return _changed(lambda connection: store_actors.deactivate(connection, actor_id))


@command(actor_app)
def link(
    actor_id: ActorId, identity: Annotated[str, typer.Argument(metavar="hubspot:USER", help="User of the CRM.")]
) -> Answer:
    """Say that a CRM user is this actor: what that user requested or amended, this actor cannot approve."""
    if identity.partition(":")[0] not in SYSTEMS:
        raise InvalidInput("identity", f"SYSTEM:USER, SYSTEM one of {', '.join(SYSTEMS)}")
    return _changed(lambda connection: store_actors.link(connection, actor_id, identity))


@command(token_app)
def issue(actor_id: Annotated[str, typer.Argument(metavar="ACTOR", help="Id of the actor.")]) -> Answer:
    """Make a token. Its secret is shown this once and never stored."""
    with session() as parts:
        token_id, secret = parts.store.once(lambda connection: store_actors.issue_token(connection, actor_id))
    lines = [f"token   {token_id}", f"secret  {secret}", "The secret is not stored: keep it now."]
    return Answer({"token": token_id, "actor": actor_id, "secret": secret}, lines)


@command(token_app, "revoke")
def revoke_token(token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="tok-…")]) -> Answer:
    """End a token."""
    with session() as parts:
        parts.store.once(lambda connection: store_actors.revoke_token(connection, token_id))
    return Answer({"token": token_id, "revoked": True}, [f"{token_id} is revoked"])
