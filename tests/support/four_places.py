"""The check after every scenario: store, engine, CRM and provider say the same of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventually import eventually
from temporalio.client import WorkflowExecutionStatus

from domain.identity import workflow_id

if TYPE_CHECKING:
    from world import World

TERMINAL = ("succeeded", "failed", "canceled", "suppressed", "expired")
ENDED_RIGHT = WorkflowExecutionStatus.COMPLETED


@dataclass(frozen=True)
class FourPlaces:
    """One run, looked at in each of the four places. Every method fails if its place disagrees with the store."""

    world: World
    run_id: str

    def agree(self, state: str, accounts: int, tasks: int) -> dict[str, Any]:
        """The run as shown, once all four agree that it is in `state` with so many records outside."""
        shown = self.world.show(self.run_id)
        assert (shown["state"], shown["reason"]) == (state, shown["reason"]), shown
        self.store(shown)
        self.engine(shown)
        self.crm(shown, tasks)
        self.provider(shown, accounts)
        return shown

    def store(self, shown: dict[str, Any]) -> None:
        events = self.world.events(self.run_id)
        assert [event["seq"] for event in events] == list(range(1, shown["seq"] + 1))
        assert [event["previous"] for event in events[1:]] == [event["next"] for event in events[:-1]]
        assert (events[-1]["next"], events[-1]["reason"]) == (shown["state"], shown["reason"])
        ends = [event["next"] for event in events if event["next"] in TERMINAL]
        assert ends == ([shown["state"]] if shown["state"] in TERMINAL else [])

    def engine(self, shown: dict[str, Any]) -> None:
        """Closed with the run, else waiting, and never failed; the search attribute says the same state."""
        wanted = ENDED_RIGHT if shown["state"] in TERMINAL else WorkflowExecutionStatus.RUNNING
        eventually(lambda: self._execution(shown) == (wanted, shown["state"]), 20)

    def _execution(self, shown: dict[str, Any]) -> tuple[WorkflowExecutionStatus | None, object]:
        epoch = shown["engine"]["epoch"]
        described = self.world.execution(
            workflow_id(shown["process"], shown["business_key"], shown["number"], epoch),
        )
        return described.status, described.search_attributes.get("BusinessState", [None])[0]

    def crm(self, shown: dict[str, Any], tasks: int) -> None:
        """The company's fields mirror the newest run of the request, and exactly the recorded task exists."""
        fields = eventually(lambda: self._mirrored(shown), 20)
        assert (fields.get("counterfoil_account") or None) == self._reference(shown, "create-account")
        made = self.world.tasks(self.run_id)
        assert len(made) == tasks, made
        if (reference := self._reference(shown, "verification-task")) is not None:
            assert [task["id"] for task in made] == [reference]

    def _mirrored(self, shown: dict[str, Any]) -> dict[str, Any] | None:
        listed = self.world.http.get("/runs", params={"business_key": shown["business_key"]}).json()
        newest = next(run for run in listed if run["kind"] != "rehearsal")
        fields: dict[str, Any] = self.world.company(shown["subject"].rpartition(":")[2])["properties"]
        mirrored = (fields.get("counterfoil_run"), fields.get("counterfoil_state"))
        return fields if mirrored == (newest["run"], newest["state"]) else None

    def provider(self, shown: dict[str, Any], accounts: int) -> None:
        """Exactly the recorded account exists, under the recorded key."""
        made = self.world.accounts(self.run_id)
        assert len(made) == accounts, made
        if (reference := self._reference(shown, "create-account")) is not None:
            assert [account["id"] for account in made] == [reference]
            keys = [o["operation"] for o in shown["operations"] if o["reference"] == reference]
            assert [account["metadata"]["operation_key"] for account in made] == keys

    def _reference(self, shown: dict[str, Any], step: str) -> str | None:
        found = [o for o in shown["operations"] if o["step"] == step and o["outcome"] == "accepted"]
        return str(found[0]["reference"]) if found else None
