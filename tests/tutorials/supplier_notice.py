"""Supplier notice: an approved supplier becomes one HubSpot task for the company's owner."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import StringConstraints

from domain.process import Effect, EffectContext, Inputs, Process, ReviewPolicy, Trigger, crm


class Supplier(Inputs):
    """What a person approves."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=300)] = crm("name")
    country: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")] = crm("country")
    phone: str | None = crm("phone", material=False, default=None)


def _task(supplier: Supplier, context: EffectContext) -> Mapping[str, str | None]:
    return {
        "subject_id": context.subject.object_id,
        "owner": context.owner,
        "title": f"Tell purchasing about {supplier.name}",
        "body": f"Run {context.run}: supplier from {supplier.country} was approved",
        "due_at": (context.read_at + timedelta(days=2)).isoformat(timespec="milliseconds"),
    }


def _compared(supplier: Supplier, context: EffectContext) -> Mapping[str, str | None]:
    fields = _task(supplier, context)
    return {"title": fields["title"], "body": fields["body"]}


TASK = Effect("notice-task", "hubspot", "create_task", _task, "Tell purchasing", _compared)
NOTICE = Process(
    name="supplier-notice",
    policy="2026-12",
    inputs=Supplier,
    trigger=Trigger("hubspot", "0-2", "supplier_stage", "approved"),
    review=ReviewPolicy(role="supervisor", deadline=timedelta(days=2), valid_for=timedelta(days=7)),
    effects=(TASK,),
)
