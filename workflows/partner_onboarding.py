"""WHEN a partner is onboarded; WHAT is in domain/partner_onboarding.py."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.execution import Start
    from domain.partner_onboarding import CREATE_ACCOUNT, ONBOARDING, VERIFICATION_TASK
    from workflows.business_run import BusinessRun, Ending


@workflow.defn(name=ONBOARDING.name)
class PartnerOnboarding:
    """Snapshot, approval, provider account, verification task, agreement."""

    @workflow.init
    def __init__(self, start: Start) -> None:
        self._run = BusinessRun(start)

    @workflow.run
    async def run(self, start: Start) -> Ending:
        """Carry the run through, or leave it where the store says it stands."""
        async with self._run as run:
            await run.snapshot()
            await run.reviewed()
            await run.carried_out(CREATE_ACCOUNT.step, CREATE_ACCOUNT.title)
            await run.carried_out(VERIFICATION_TASK.step, VERIFICATION_TASK.title)
            await run.agreed()
        return self._run.ending
