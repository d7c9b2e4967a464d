import asyncio

import psycopg
import pytest
from databases import Database
from eventually import eventually
from temporalio.client import Client


def test_the_application_role_owns_nothing(database: Database) -> None:
    with psycopg.connect(database.url.replace("+psycopg", "")) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("CREATE TABLE public.mine (id int)")
    assert refused.value.sqlstate == "42501"


def test_the_owner_may_migrate(database: Database) -> None:
    with psycopg.connect(database.owner_url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE mine (id int)")


def test_temporal_answers(temporal_client: Client, runner: asyncio.Runner) -> None:
    assert runner.run(temporal_client.service_client.check_health())


def test_eventually_returns_what_came_true() -> None:
    values = iter([0, None, 3])
    assert eventually(lambda: next(values)) == 3


def test_eventually_says_what_did_not_happen() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: .*x is missing"):
        eventually(lambda: _refuse("x is missing"), within=0)


def _refuse(why: str) -> None:
    raise ValueError(why)
