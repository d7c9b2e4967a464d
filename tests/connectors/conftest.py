"""One sandbox process for this folder, emptied before each test, and the connectors that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from connector_cases import CASES, PRACTICE, Case, Made, hubspot_to, stripe_to
from sandboxes import SandboxProcess, sandbox_process

from connectors.hubspot import HubSpot
from connectors.stripe import Stripe
from sandbox.control import SandboxControl, Seeded


@pytest.fixture(scope="session")
def connector_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    with sandbox_process(tmp_path_factory.mktemp("connectors") / "sandbox.sqlite") as running:
        yield running


@pytest.fixture
def sandbox(connector_sandbox: SandboxProcess) -> Iterator[SandboxControl]:
    """Control of an empty sandbox whose companies have a unique partner key."""
    with SandboxControl(connector_sandbox.url) as control:
        control.reset()
        control.add_property("companies", "partner_key", unique=True)
        yield control


@pytest.fixture
def company(sandbox: SandboxControl) -> Seeded:
    """A company with owner and primary contact, made by a CRM user."""
    return sandbox.seed(
        {"name": "Northwind Test Partner", "country": "DE", "description": ""},
        contact={"email": "contact@example.test"},
        owner={"email": "owner@example.test", "userId": 61000001},
        actor="userId:61000001",
    )


@pytest.fixture
def hubspot(sandbox: SandboxControl) -> Iterator[HubSpot]:
    connector = hubspot_to(sandbox.base_url)
    yield connector
    connector.close()


@pytest.fixture
def stripe(sandbox: SandboxControl) -> Iterator[Stripe]:
    connector = stripe_to(sandbox.base_url)
    yield connector
    connector.close()


def made_of(case: Case, sandbox: SandboxControl, company: Seeded) -> Iterator[Made]:
    """The case, ready to be sent to the sandbox, whose callbacks and webhooks stay in its queue."""
    sandbox.settings(practice_callback_url="http://127.0.0.1:9/callbacks", webhook_hold=True)
    connector = case.connect(sandbox.base_url)
    with closing(connector):
        yield Made(case, connector, sandbox, case.fields_for(company))


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def made(request: pytest.FixtureRequest, sandbox: SandboxControl, company: Seeded) -> Iterator[Made]:
    """Each operation of each connector; the practice provider's index does not lag."""
    sandbox.settings(practice_lag=0)
    yield from made_of(request.param, sandbox, company)


@pytest.fixture(params=PRACTICE, ids=lambda case: case.kind)
def practised(request: pytest.FixtureRequest, sandbox: SandboxControl, company: Seeded) -> Iterator[Made]:
    """Each mode of the practice provider."""
    yield from made_of(request.param, sandbox, company)
