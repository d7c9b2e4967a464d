"""One sandbox process for all tests of this folder, emptied before each; HTTP clients with its credentials."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from eventually import ANSWER_SECONDS
from sandboxes import SandboxProcess, sandbox_process

from sandbox.control import SandboxControl

HUBSPOT = {"authorization": "Bearer pat-sandbox-token"}
STRIPE = {"authorization": "Bearer sk_test_sandbox"}
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def sandbox_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    with sandbox_process(tmp_path_factory.mktemp("sandbox") / "sandbox.sqlite") as running:
        yield running


@pytest.fixture
def sandbox(sandbox_service: SandboxProcess) -> Iterator[SandboxControl]:
    """Control of an empty sandbox."""
    with SandboxControl(sandbox_service.url) as control:
        control.reset()
        yield control


@pytest.fixture
def hubspot(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=sandbox.base_url, headers=HUBSPOT, trust_env=False, verify=False, timeout=ANSWER_SECONDS
    ) as client:
        yield client


@pytest.fixture
def stripe_http(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=sandbox.base_url, headers=STRIPE, trust_env=False, verify=False, timeout=ANSWER_SECONDS
    ) as client:
        yield client


@pytest.fixture
def outbound() -> Callable[[str], str]:
    """Text of an example of a request or an answer."""
    return lambda name: (FIXTURES / "outbound" / name).read_text()
