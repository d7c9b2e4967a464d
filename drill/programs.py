"""Our own processes in the drill's build: the same programs with the hook in them, and a contract of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.plugin import SimplePlugin
from temporalio.worker import PollerBehaviorSimpleMaximum, WorkerConfig, WorkflowInstance, WorkflowInstanceDetails

import cli.main
import cli.session
import gateway.__main__
import gateway.app
import worker
from business_store.database import Store
from composition import Parts
from domain.boundaries import boundary
from domain.callbacks import CallsBack
from domain.ports import Connector
from drill.ends import MODE, STRIPE, SYSTEM, calls_back_of, connector_of
from drill.hook import Hook, cut_connections
from gateway.callbacks import Caller, standard_webhooks_caller
from operating.outside import Watched
from settings import load_settings, several
from workflows.plugin import counterfoil_plugin
from workflows.runner import Sandbox

FOLDER = "DRILL_FOLDER"
"""Names the folder of the process's slot."""
ARGUMENTS = "DRILL_ARGUMENTS"
"""Those of a drilled command, as JSON."""


class DrilledParts(Parts):
    """The parts of a drilled process."""

    @cached_property
    def store(self) -> Store:
        made = super().store
        assert isinstance(hook, Hook)
        cut_connections(made.engine, hook)
        return made

    @cached_property
    def connectors(self) -> Mapping[str, Connector]:
        """The provider of the schedule's contract in the place of Stripe."""
        made = connector_of(os.environ[MODE], self.settings)
        return super().connectors if made is None else {**super().connectors, SYSTEM: Watched(made)}

    @property
    def calls_back(self) -> Mapping[str, CallsBack]:
        """The same provider, which tells in its own way."""
        return {SYSTEM: calls_back_of(os.environ[MODE])}


class _Tasks:
    """A workflow's instance whose tasks are boundaries: between the engine and us, and outside the workflow's code."""

    def __init__(self, instance: WorkflowInstance) -> None:
        self._instance = instance

    def activate(self, act: Any) -> Any:  # noqa: ANN401 (the SDK's messages)
        with boundary("workflow-task"):
            return self._instance.activate(act)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._instance, name)


class _Runner(Sandbox):
    def create_instance(self, det: WorkflowInstanceDetails) -> Any:  # noqa: ANN401
        return _Tasks(super().create_instance(det))


class _Drilled(SimplePlugin):
    """A worker that stands still keeps what it had asked for until the engine's patience ends: it asks for little."""

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config["workflow_task_poller_behavior"] = PollerBehaviorSimpleMaximum(2)
        config["activity_task_poller_behavior"] = PollerBehaviorSimpleMaximum(1)
        return super().configure_worker(config)


async def _connect(lazy: bool = False) -> Client:
    profile: dict[str, Any] = {**ClientConfig.load_client_connect_config()}
    drilled = _Drilled("drill", workflow_runner=_Runner())
    return await Client.connect(**profile, plugins=[counterfoil_plugin(), drilled], lazy=lazy)


hook: Hook | None = None


def _drilled() -> None:
    global hook
    hook = Hook(Path(os.environ[FOLDER]))
    hook.install()


def run_worker() -> None:
    """`worker.py`."""
    _drilled()
    vars(worker).update(Parts=DrilledParts, connect=_connect)
    worker.start(load_settings())


def _practice_callers(parts: Parts) -> list[Caller]:
    secrets = several(parts.settings.stripe_webhook_secret)
    return [standard_webhooks_caller(parts.calls_back[SYSTEM], secrets)]


def run_gateway() -> None:
    """`python -m gateway`."""
    _drilled()
    vars(gateway.__main__).update(Parts=DrilledParts)
    if os.environ[MODE] != STRIPE:
        vars(gateway.app).update(callers=_practice_callers)
    gateway.__main__.main()


def run_command() -> None:
    """`counterfoil`."""
    _drilled()
    vars(cli.session).update(Parts=DrilledParts)
    sys.argv = ["counterfoil", *json.loads(os.environ[ARGUMENTS])]
    cli.main.main()


PROGRAMS: Mapping[str, Callable[[], None]] = {"worker": run_worker, "gateway": run_gateway, "command": run_command}
