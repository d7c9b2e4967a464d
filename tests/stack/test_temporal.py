"""Temporal's development server as our own child."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from stack.child import Files
from stack.ports import LOOPBACK, PortTaken, free_port, free_ports, listening
from stack.temporal import EmbeddedTemporal, TemporalSettings

STATE = SearchAttributeKey.for_keyword("BusinessState")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedTemporal]:
    port, ui_port = free_ports(2)
    server = EmbeddedTemporal(
        TemporalSettings(port, ui_port, tmp_path / "temporal.sqlite"), Files.of(tmp_path, "temporal")
    )
    server.start()
    yield server
    server.stop()


def test_sigkill_and_a_start_on_the_same_file_lose_no_run(server: EmbeddedTemporal, runner: asyncio.Runner) -> None:
    runner.run(_start_run(server.address))
    server.kill()
    server.start()
    assert runner.run(_state_of_run(server.address)) == "queued"


def test_the_ui_is_served(server: EmbeddedTemporal) -> None:
    assert server.settings.ui_port
    assert listening(server.settings.ui_port)


@pytest.mark.parametrize("setting", ["COUNTERFOIL_TEMPORAL_PORT", "COUNTERFOIL_TEMPORAL_UI_PORT"])
def test_a_taken_port_is_named(tmp_path: Path, setting: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        taken = other.getsockname()[1]
        ports = (taken, free_port()) if setting == "COUNTERFOIL_TEMPORAL_PORT" else (free_port(), taken)
        with pytest.raises(PortTaken) as refused:
            EmbeddedTemporal(TemporalSettings(*ports), Files.of(tmp_path, "temporal")).start()
    assert (refused.value.port, refused.value.setting_name) == (taken, setting)


async def _start_run(address: str) -> None:
    client = await Client.connect(address)
    state = TypedSearchAttributes([SearchAttributePair(STATE, "queued")])
    await client.start_workflow("anything", id="kept", task_queue="nobody", search_attributes=state)


async def _state_of_run(address: str) -> str | None:
    client = await Client.connect(address)
    described = await client.get_workflow_handle("kept").describe()
    return described.typed_search_attributes.get(STATE)
