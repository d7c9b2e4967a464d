"""The story, step by step. Each step does one thing from outside and holds what must follow from it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from demo import engine, places
from demo.doors import Doors
from demo.partner import AMENDED_IBAN, AMENDER, MANAGER, seed
from demo.telling import Broken, Narrator, eventually, hold, moment
from stack.supervisor import Stack

SUPERVISOR = "sabine"
ENDED = ("succeeded", "failed", "canceled", "suppressed", "expired")


@dataclass
class Story:
    """One telling on a running stack."""

    stack: Stack
    doors: Doors
    tell: Narrator
    company: str = ""
    run: str = ""
    workflow: str = ""
    token: str = field(default="", repr=False)

    def play(self) -> None:
        """Everything up to the end of the run. Raises Broken."""
        self._people()
        self._submitted_twice()
        first = self._waits_for_approval()
        self._raw_signals_change_nothing()
        second = self._amended(first)
        self._old_version_is_refused(first)
        self._approved_while_answers_are_lost(second)
        account = self._worker_killed()
        self._found_by_its_key(account)
        self._audited()

    # ── before the decision ─────────────────────────────────────────────────────────────────────────────────────

    def _people(self) -> None:
        self.tell.chapter(f"An actor: {SUPERVISOR}, who may approve")
        self._command("actor", "add", SUPERVISOR, "--name", "Sabine Supervisor")
        self._command("actor", "grant", SUPERVISOR, "supervisor")
        self.token = str(self._command("token", "issue", SUPERVISOR)["secret"])
        self.tell.say("an API token was issued; the store keeps only its hash")

    def _submitted_twice(self) -> None:
        self.tell.chapter("HubSpot: a company is submitted, and its event arrives twice")
        self.company = seed(self.doors.sandbox).company_id
        self.doors.change_company(self.company, MANAGER, {"onboarding_stage": "submitted"})
        self.tell.say(f"CRM user {MANAGER} moved company {self.company} to onboarding_stage = submitted")
        self.run = eventually(lambda: self.doors.run_about(self.business_key), "the event starts a run")
        event = self._submitting_event()
        self.tell.say(f"event {event['eventId']}, signed by HubSpot's v3 scheme, started {self.run}")
        self.doors.sandbox.wait_until_delivered()
        self._delivered_again(event)

    def _submitting_event(self) -> dict[str, Any]:
        events = [dict(sent["event"]) for sent in self.doors.sandbox.webhooks()]
        wanted = ("onboarding_stage", int(self.company))
        found = [each for each in events if (each.get("propertyName"), each["objectId"]) == wanted]
        return found[-1]

    def _delivered_again(self, event: dict[str, Any]) -> None:
        file = self.stack.paths.root / "event.json"
        file.write_text(json.dumps([{**event, "attemptNumber": 1}]))
        element = self._command("trigger", str(file), "--source", "hubspot")["answer"]["elements"][0]
        hold(element["disposition"] == "duplicate", f"a second delivery is a duplicate, not {element['disposition']}")
        runs = self.doors.gateway.get("/runs", params={"business_key": self.business_key}).json()
        hold(len(runs) == 1, f"one run for one request, not {len(runs)}")
        self.tell.say("delivered a second time: recognised as a duplicate, still one run")

    def _waits_for_approval(self) -> dict[str, Any]:
        shown = self._until("awaiting_review")
        hold(shown["versions"][-1]["problems"] == [], "the inputs have no problems")
        self.tell.chapter(f"The run waits: {shown['shown_as']}")
        self._say_version(shown)
        self.tell.say(f"asked is the role {shown['next_owner']}, until {moment(shown['deadline'])}")
        return shown

    def _raw_signals_change_nothing(self) -> None:
        self.tell.chapter("Temporal: somebody signals the workflow by hand")
        found = eventually(lambda: asyncio.run(engine.find(self.temporal, self.business_key)), "the engine knows it")
        self.workflow = found
        before = self._standing()
        last = asyncio.run(engine.signal_anything(self.temporal, found))
        eventually(
            lambda: asyncio.run(engine.looked_after(self.temporal, found, last)), "the workflow handles the signals"
        )
        hold(self._standing() == before, "raw signals change nothing")
        events = self.doors.gateway.get(f"/runs/{self.run}/events").json()
        noted = [event for event in events if event["evidence"].get("unmatched_signal")]
        hold(len(noted) == 1, f"one event notes that signals came without a decision, not {len(noted)}")
        self.tell.say(f"{found} got three signals, one of them a forged approval;")
        self.tell.say("it woke up, found no decision in the store, and waits as before: nothing was sent")

    def _standing(self) -> dict[str, Any]:
        """All that a signal could have changed."""
        shown = self.doors.run(self.run)
        names = ("state", "reason", "since", "input_version", "decisions", "operations", "deadline")
        return {**{name: shown[name] for name in names}, "accounts": self.doors.accounts(self.run)}

    def _amended(self, first: dict[str, Any]) -> dict[str, Any]:
        self.tell.chapter("HubSpot: another user amends the bank details")
        self.doors.change_company(self.company, AMENDER, {"iban": AMENDED_IBAN})
        wanted = first["input_version"] + 1

        def asked_anew() -> dict[str, Any] | None:
            shown = self.doors.run(self.run)
            fits = shown["state"] == "awaiting_review" and shown["input_version"] == wanted
            return shown if fits else None

        shown = eventually(asked_anew, "the amendment opens a review of its own")
        hold(shown["fingerprint"] != first["fingerprint"], "other inputs have another fingerprint")
        self.tell.say(f"CRM user {AMENDER} changed the IBAN: the open question is superseded by a new one")
        self._say_version(shown)
        return shown

    def _say_version(self, shown: dict[str, Any]) -> None:
        self.tell.say(f"version {shown['input_version']}, fingerprint {shown['fingerprint'][:16]}…")

    # ── decision and effect ─────────────────────────────────────────────────────────────────────────────────────

    def _old_version_is_refused(self, first: dict[str, Any]) -> None:
        self.tell.chapter(f"{SUPERVISOR} approves what she saw first: version {first['input_version']}")
        said = self._approve(first)
        hold(said.code == 1, f"approving a superseded version is refused, not answered with exit code {said.code}")
        hold(said.document.get("why") == "superseded", f"refused as superseded, not {said.document}")
        hold(not self.doors.run(self.run)["decisions"], "a refused decision is no decision")
        self.tell.say(f"refused: {said.document['message']}")

    def _approved_while_answers_are_lost(self, second: dict[str, Any]) -> None:
        self.tell.chapter(f"{SUPERVISOR} approves version {second['input_version']}; the provider's answer gets lost")
        creating = {"method": "POST", "path_prefix": "/v1/accounts"}
        self.doors.sandbox.fault("drop_after_commit", times=1000, match=creating)
        said = self._approve(second)
        hold(said.code == 0, f"the current version can be approved: {said.document}")
        self.tell.say(f"decision {said.document['id']}, valid until {moment(said.document['valid_until'])}")
        shown = self._until("outcome_unknown")
        self.tell.say(f"{shown['shown_as']}: Stripe got the request; the connection closed without an answer")
        self.tell.say(f"the same bytes under the same key are permitted until {moment(shown['resend_window_ends'])}")

    def _worker_killed(self) -> str:
        self.tell.chapter("The worker is killed with SIGKILL while the outcome is unknown")
        killed = self.stack.child("worker").pid
        self.stack.kill("worker")
        self.doors.sandbox.clear_faults()
        state, accounts = self.doors.run(self.run)["state"], self.doors.accounts(self.run)
        hold(state == "outcome_unknown", f"the outcome is unknown when the worker dies, not {state}")
        hold(len(accounts) == 1, f"the provider made one account, not {len(accounts)}")
        account = str(accounts[0]["id"])
        self.tell.say(f"process {killed} is gone; Stripe has {account}, and the store does not know it yet")
        self.stack.restart("worker")
        self.tell.say(f"started again as process {self.stack.child('worker').pid}")
        return account

    def _found_by_its_key(self, account: str) -> None:
        shown = self._until("succeeded")
        made = {operation["step"]: operation for operation in shown["operations"]}
        created, task = made["create-account"], made["verification-task"]
        sends = self.doors.sandbox.requests(key=created["operation"], method="POST", path_prefix="/v1/accounts")
        bodies = {send["body"] for send in sends}
        self.tell.chapter(f"The account is found by its key: {shown['shown_as']} ({shown['reason']})")
        hold(created["reference"] == account, f"the account that exists is accepted, not {created['reference']}")
        hold(len(self.doors.accounts(self.run)) == 1, "the account was not made twice")
        hold(len(bodies) == 1, "every send carried the same bytes")
        self.tell.say(f"operation {created['operation']}: {len(sends)} sends of the same bytes, one account, {account}")
        self.tell.say(f"verification task {task['reference']} is on the desk of the company's owner")

    def _audited(self) -> None:
        self.tell.chapter("The store is audited")
        said = self.doors.counterfoil("audit")
        hold(said.code == 0, f"the audit passes: {said.document}")
        self.tell.say(f"{said.document['checks']} checks of its invariants, no violation")

    # ── the four places ─────────────────────────────────────────────────────────────────────────────────────────

    def plant(self) -> None:
        """Falsify one field at the provider, so that the comparison has something to find."""
        account = self.doors.accounts(self.run)[0]["id"]
        self.doors.provider.post(f"/v1/accounts/{account}", data={"email": "planted@example.test"}).raise_for_status()
        self.tell.say(f"planted: the e-mail address of {account} was changed at the provider")

    def mirrored(self) -> None:
        """Until the CRM shows the end and the execution is closed. Raises Broken."""

        def closed() -> bool:
            return asyncio.run(engine.execution(self.temporal, self.workflow)).status == "COMPLETED"

        eventually(lambda: places.crm(self.doors.crm, self.company)["state"] == "succeeded", "the CRM shows the end")
        eventually(closed, "the engine's execution is completed")

    def compared(self) -> None:
        """Raises Broken, naming every difference."""
        self.tell.chapter("Four places, each read by its own client")
        columns = {
            "store (psycopg)": places.store(self.dsn, self.run),
            "engine (temporalio)": places.in_engine(self.temporal, self.workflow),
            "CRM (HubSpot API)": places.crm(self.doors.crm, self.company),
            "provider (Stripe API)": places.provider(self.doors.provider, self.run),
        }
        self.tell.block(places.side_by_side(columns))
        differing = places.differences(columns)
        if differing:
            raise Broken("; ".join(differing))

    # ── small things ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def business_key(self) -> str:
        return f"{self.stack.env['COUNTERFOIL_HUBSPOT_PORTAL_ID']}-0-2-{self.company}"

    @property
    def temporal(self) -> str:
        return self.stack.env["TEMPORAL_ADDRESS"]

    @property
    def dsn(self) -> str:
        return self.stack.env["COUNTERFOIL_DATABASE_URL"].replace("+psycopg", "")

    def _command(self, *words: str) -> Any:  # noqa: ANN401 (any JSON)
        said = self.doors.counterfoil(*words)
        hold(said.code == 0, f"counterfoil {' '.join(words)}: {said.document}")
        return said.document

    def _approve(self, seen: dict[str, Any]) -> Any:  # noqa: ANN401
        about = ("--version", str(seen["input_version"]), "--fingerprint", seen["fingerprint"])
        return self.doors.counterfoil("approve", self.run, *about, token=self.token)

    def _until(self, state: str) -> dict[str, Any]:
        """The run in this state. Raises Broken, also when it ended in another."""

        def reached() -> dict[str, Any] | None:
            shown = self.doors.run(self.run)
            over = shown["state"] in ENDED and shown["state"] != state
            hold(not over, f"the run comes to {state}; it ended as {shown['state']} ({shown['reason']})")
            return shown if shown["state"] == state else None

        return eventually(reached, f"the run comes to {state}")
