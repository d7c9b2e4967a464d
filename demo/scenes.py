"""One run in each state that a person meets, brought there from outside as the world would bring it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo.doors import Doors
from demo.partner import COMPANY, CONTACT, MANAGER, OWNER
from demo.story import ENDED, SUPERVISOR
from demo.telling import eventually, hold

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
OFTEN = 1_000
REACHED_SECONDS = 60.0


@dataclass(frozen=True)
class Scene:
    """A run that stands still where it can be looked at."""

    name: str
    run: str
    state: str


@dataclass(frozen=True)
class Stage:
    """What scenes are made with: the doors of a running stack and a supervisor's token."""

    doors: Doors
    token: str

    def submitted(self, **changes: str) -> str:
        """The run of a new company that differs from the usual one in this."""
        return self.submit(self.seeded(**changes))

    def submit(self, company: str) -> str:
        self.doors.change_company(company, MANAGER, {"onboarding_stage": "submitted"})
        key = f"{self.doors.environment['COUNTERFOIL_HUBSPOT_PORTAL_ID']}-0-2-{company}"
        return eventually(lambda: self.doors.run_about(key), "the event starts a run")

    def seeded(self, **changes: str) -> str:
        """A company with its contact, not submitted yet; its id."""
        number = len(self.doors.sandbox.records("hubspot", "companies")) + 1
        contact = {**CONTACT, "email": f"petra.kraft.{number}@nordwind.example"}
        made = self.doors.sandbox.seed({**COMPANY, **changes}, contact=contact, owner=OWNER, actor=f"userId:{MANAGER}")
        return made.company_id

    def decided(self, run: str, verb: str) -> None:
        """As the supervisor, about the version that waits."""
        shown = self.until(run, "awaiting_review")
        about = ("--version", str(shown["input_version"]), "--fingerprint", shown["fingerprint"])
        said = self.doors.counterfoil(verb, run, *about, token=self.token)
        hold(said.code == 0, f"{verb} {run}: {said.document}")

    def until(self, run: str, state: str) -> dict[str, Any]:
        """The run in this state. Raises Broken."""

        def reached() -> dict[str, Any] | None:
            shown = self.doors.run(run)
            over = shown["state"] in ENDED and shown["state"] != state
            hold(not over, f"{run} comes to {state}; it ended as {shown['state']} ({shown['reason']})")
            return shown if shown["state"] == state else None

        return eventually(reached, f"{run} comes to {state}", within=REACHED_SECONDS)


def staged(doors: Doors) -> Stage:
    """With a supervisor of its own, who is made when she is not there yet."""
    doors.counterfoil("actor", "add", SUPERVISOR, "--name", "Sabine Supervisor")
    doors.counterfoil("actor", "grant", SUPERVISOR, "supervisor")
    said = doors.counterfoil("token", "issue", SUPERVISOR)
    hold(said.code == 0, f"token issue: {said.document}")
    return Stage(doors, str(said.document["secret"]))


def expired(stage: Stage) -> str:
    """Nobody decides; wants a short review deadline."""
    return stage.submitted()


def awaiting_review(stage: Stage) -> str:
    return stage.submitted()


def waiting(stage: Stage) -> str:
    """The company has no bank account."""
    return stage.submitted(iban="")


def retrying(stage: Stage) -> str:
    """The CRM does not give this company away."""
    company = stage.seeded()
    reading = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{company}"}
    stage.doors.sandbox.fault("error_500_before", times=OFTEN, match=reading)
    return stage.submit(company)


def outcome_unknown(stage: Stage) -> str:
    """The provider acts, and its answers get lost."""
    return _approved_with(stage, "drop_after_commit", "lost@nordwind.example")


def contracts_exhausted(stage: Stage) -> str:
    """The provider stored an error under our key, and no look-up shows an account."""
    return _approved_with(stage, "error_500_before", "exhausted@nordwind.example", stored=True)


def provider_rejected(stage: Stage) -> str:
    """The provider's rule for e-mail addresses is stricter than ours."""
    run = stage.submitted(partner_email="rejected@nordwind..example")
    stage.decided(run, "approve")
    return run


def _approved_with(stage: Stage, fault: str, email: str, **more: object) -> str:
    stage.doors.sandbox.fault(fault, times=OFTEN, match={**ACCOUNTS, "key": email}, **more)
    run = stage.submitted(partner_email=email)
    stage.decided(run, "approve")
    return run


def succeeded(stage: Stage) -> str:
    run = stage.submitted()
    stage.decided(run, "approve")
    return run


def failed(stage: Stage) -> str:
    """The supervisor says no."""
    run = stage.submitted()
    stage.decided(run, "reject")
    return run


def queued(stage: Stage) -> str:
    """Accepted and started in the engine; wants that no worker runs."""
    return stage.submitted()


Make = Callable[[Stage], str]
SHORT_DEADLINE: dict[str, tuple[Make, str]] = {"expired": (expired, "expired")}
NO_WORKER: dict[str, tuple[Make, str]] = {"queued": (queued, "queued")}
WITH_WORKER: dict[str, tuple[Make, str]] = {
    "awaiting_review": (awaiting_review, "awaiting_review"),
    "waiting": (waiting, "waiting"),
    "retrying": (retrying, "retrying"),
    "outcome_unknown": (outcome_unknown, "outcome_unknown"),
    "needs_operator_rejected": (provider_rejected, "needs_operator"),
    "needs_operator_exhausted": (contracts_exhausted, "needs_operator"),
    "succeeded": (succeeded, "succeeded"),
    "failed": (failed, "failed"),
}


def made(stage: Stage, makers: dict[str, tuple[Make, str]]) -> list[Scene]:
    """Every run submitted and decided about first, then each awaited. Raises Broken."""
    scenes = [Scene(name, make(stage), state) for name, (make, state) in makers.items()]
    for scene in scenes:
        stage.until(scene.run, scene.state)
    return scenes
