"""What one would write by hand: a plain Temporal workflow with the same outside calls, five activities and a signal.

No store, no permits, no recovery: the measure that the onboarding is held against.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from composition import Parts
    from domain.identity import SubjectRef
    from domain.partner_onboarding import ONBOARDING, Partner
    from domain.ports import Send
    from domain.process import EffectContext, crm_names
    from settings import load_settings
    from sweep.engine import connect

QUEUE = "bare"
TIMEOUT = timedelta(seconds=60)
WITHIN = timedelta(seconds=20)


@workflow.defn(name="bare-onboarding")
class BareOnboarding:
    """Snapshot, approval, account, task, comparison."""

    def __init__(self) -> None:
        self._approved = False

    @workflow.signal
    def approve(self) -> None:
        self._approved = True

    @workflow.run
    async def run(self, company: str) -> str:
        await workflow.execute_activity("bare-snapshot", company, start_to_close_timeout=TIMEOUT)
        await workflow.wait_condition(lambda: self._approved)
        await workflow.execute_activity("bare-check", company, start_to_close_timeout=TIMEOUT)
        account: str = await workflow.execute_activity(
            "bare-account", company, result_type=str, start_to_close_timeout=TIMEOUT
        )
        task: str = await workflow.execute_activity(
            "bare-task", args=[company, account], result_type=str, start_to_close_timeout=TIMEOUT
        )
        await workflow.execute_activity("bare-compare", args=[company, account, task], start_to_close_timeout=TIMEOUT)
        return account


class BareSteps:
    """The same calls through the same connectors as the onboarding makes, one after the other."""

    def __init__(self, parts: Parts) -> None:
        self._hubspot, self._stripe = parts.hubspot, parts.stripe

    def _read(self, company: str) -> Partner:
        subject = _subject(company)
        values = self._hubspot.read_subject(subject, ONBOARDING.wanted).values
        return Partner.model_validate({name: values.get(prop) or None for name, prop in crm_names(Partner).items()})

    def _show(self, company: str, state: str) -> None:
        self._hubspot.project(_subject(company), {"counterfoil_state": state, "counterfoil_run": company})

    @activity.defn(name="bare-snapshot")
    def snapshot(self, company: str) -> None:
        self._read(company)
        self._show(company, "awaiting_review")

    @activity.defn(name="bare-check")
    def check(self, company: str) -> None:
        """The hand-written application looks at nothing here."""

    @activity.defn(name="bare-account")
    def account(self, company: str) -> str:
        fields = ONBOARDING.effects[0].fields(self._read(company), _context(company, {}))
        content = self._stripe.render("create_account", f"bare-{company}", fields)
        return str(self._stripe.send(Send("create_account", f"bare-{company}", content, WITHIN)).reference)

    @activity.defn(name="bare-task")
    def task(self, company: str, account: str) -> str:
        fields = {"subject_id": company, "title": "Verify partner account", "body": account, "run_id": company}
        content = self._hubspot.render("create_task", f"bare-{company}", fields)
        return str(self._hubspot.send(Send("create_task", f"bare-{company}", content, WITHIN)).reference)

    @activity.defn(name="bare-compare")
    def compare(self, company: str, account: str, task: str) -> None:
        self._stripe.read_back("create_account", account)
        self._hubspot.read_back("create_task", task)
        self._read(company)
        self._show(company, "succeeded")


def _subject(company: str) -> SubjectRef:
    return SubjectRef("hubspot", "90210001", "0-2", company)


def _context(company: str, references: dict[str, str]) -> EffectContext:
    return EffectContext(company, _subject(company), None, datetime.now(UTC), references)


async def main() -> None:
    """Work until told to stop, with the worker settings that the onboarding's worker has."""
    settings = load_settings()
    stopping, steps = asyncio.Event(), BareSteps(Parts(settings))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    client: Client = await connect()
    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=[BareOnboarding],
        activities=[steps.snapshot, steps.check, steps.account, steps.task, steps.compare],
        activity_executor=ThreadPoolExecutor(settings.activity_threads),
        max_concurrent_activities=settings.activity_threads,
    ):
        await stopping.wait()


if __name__ == "__main__":
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(main())
    time.sleep(0.3)
