"""The check after every run: store, engine, CRM and provider say the same of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from domain.identity import workflow_id
from domain.states import TERMINAL
from drill.waiting import until

SHOWN_WITHIN = 120.0
"""Engine and CRM follow the store; a busy machine is slow and not wrong."""


class Places(Protocol):
    """One look into each place."""

    def show(self, run_id: str) -> dict[str, Any]: ...
    def events(self, run_id: str) -> list[dict[str, Any]]: ...
    def listed(self, business_key: str) -> list[dict[str, Any]]: ...
    def execution(self, workflow_id: str) -> WorkflowExecutionDescription: ...
    def company(self, company_id: str) -> dict[str, Any]: ...
    def tasks(self, run_id: str) -> list[dict[str, Any]]: ...
    def accounts(self, run_id: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class FourPlaces:
    """One run, looked at in each of the four places. AssertionError or Late where one disagrees with the store."""

    places: Places
    run_id: str

    def agree(self, state: str, accounts: int, tasks: int) -> dict[str, Any]:
        """The run as shown, once all four agree that it is in `state` with so many records outside."""
        shown = self.places.show(self.run_id)
        assert shown["state"] == state, shown
        self.store(shown)
        self.engine(shown)
        self.crm(shown, tasks)
        self.provider(shown, accounts)
        return shown

    def store(self, shown: dict[str, Any]) -> None:
        events = self.places.events(self.run_id)
        assert [event["seq"] for event in events] == list(range(1, shown["seq"] + 1))
        assert [event["previous"] for event in events[1:]] == [event["next"] for event in events[:-1]]
        assert (events[-1]["next"], events[-1]["reason"]) == (shown["state"], shown["reason"])
        ends = [event["next"] for event in events if event["next"] in TERMINAL]
        assert ends == ([shown["state"]] if shown["state"] in TERMINAL else [])

    def engine(self, shown: dict[str, Any]) -> None:
        """Closed with the run, else waiting, and never failed; the search attribute says the same state."""
        over = shown["state"] in TERMINAL
        wanted = WorkflowExecutionStatus.COMPLETED if over else WorkflowExecutionStatus.RUNNING
        until(lambda: self._execution(shown) == (wanted, shown["state"]), SHOWN_WITHIN, "the engine agrees")

    def _execution(self, shown: dict[str, Any]) -> tuple[WorkflowExecutionStatus | None, object]:
        epoch = shown["engine"]["epoch"]
        described = self.places.execution(
            workflow_id(shown["process"], shown["business_key"], shown["number"], epoch),
        )
        attributes: Sequence[object] = described.search_attributes.get("BusinessState", [None])
        return described.status, attributes[0]

    def crm(self, shown: dict[str, Any], tasks: int) -> None:
        """The company's fields mirror the newest run of the request, and exactly the recorded task exists."""
        fields = until(lambda: self._mirrored(shown), SHOWN_WITHIN, "the CRM agrees")
        assert (fields.get("counterfoil_account") or None) == self._reference(shown, "create-account")
        made = self.places.tasks(self.run_id)
        assert len(made) == tasks, made
        if (reference := self._reference(shown, "verification-task")) is not None:
            assert [task["id"] for task in made] == [reference]

    def _mirrored(self, shown: dict[str, Any]) -> dict[str, Any] | None:
        """A rehearsal shows nothing, and a record that is gone cannot be written."""
        runs = (run for run in self.places.listed(shown["business_key"]) if run["kind"] != "rehearsal")
        wanted = next(((run["run"], run["state"]) for run in runs), (None, None))
        company = self.places.company(shown["subject"].rpartition(":")[2])
        fields: dict[str, Any] = company["properties"]
        mirrored = (fields.get("counterfoil_run"), fields.get("counterfoil_state"))
        return fields if mirrored == wanted or company["archived"] else None

    def provider(self, shown: dict[str, Any], accounts: int) -> None:
        """Exactly the recorded account exists, under the recorded key."""
        made = self.places.accounts(self.run_id)
        assert len(made) == accounts, made
        if (reference := self._reference(shown, "create-account")) is not None:
            assert [account["id"] for account in made] == [reference]
            keys = [o["operation"] for o in shown["operations"] if o["reference"] == reference]
            assert [account["metadata"]["operation_key"] for account in made] == keys

    def _reference(self, shown: dict[str, Any], step: str) -> str | None:
        found = [o for o in shown["operations"] if o["step"] == step and o["outcome"] == "accepted"]
        return str(found[0]["reference"]) if found else None
