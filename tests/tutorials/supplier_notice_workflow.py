"""WHEN purchasing is told; WHAT is in supplier_notice.py."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from supplier_notice import NOTICE, TASK

    from domain.execution import Start
    from workflows.business_run import BusinessRun, Ending


@workflow.defn(name=NOTICE.name)
class SupplierNotice:
    """Snapshot, approval, task, agreement."""

    @workflow.init
    def __init__(self, start: Start) -> None:
        self._run = BusinessRun(start)

    @workflow.run
    async def run(self, start: Start) -> Ending:
        async with self._run as run:
            await run.snapshot()
            await run.reviewed()
            await run.carried_out(TASK.step, TASK.title)
            await run.agreed()
        return self._run.ending
