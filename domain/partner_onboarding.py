"""Partner onboarding: an approved HubSpot company becomes a Stripe connected account and a verification task."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, StringConstraints
from stdnum import iban as iban_number
from stdnum.exceptions import ValidationError as NotValid

from domain.process import Effect, EffectContext, Inputs, Process, ReviewPolicy, Trigger, crm


def _iban(text: str) -> str:
    try:
        return str(iban_number.validate(text))
    except NotValid:
        raise ValueError("an IBAN with a right check number") from None


TASK_DUE_AFTER = timedelta(days=7)
"""Long enough for the review's deadline and two working days after it."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
Email = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254)]
Iban = Annotated[str, AfterValidator(_iban)]


class Partner(Inputs):
    """The partner's details as a person approves them."""

    name: Text = crm("name")
    country: Country = crm("country")
    email: Email = crm("partner_email")
    legal_form: Text = crm("legal_form")
    bank_holder: Text = crm("bank_holder")
    iban: Iban = crm("iban")
    contact_id: str | None = crm("linked.id", default=None)
    contact_email: str | None = crm("linked.email", default=None)
    phone: str | None = crm("phone", material=False, default=None)
    description: str | None = crm("description", material=False, default=None)


def _account(partner: Partner, context: EffectContext) -> Mapping[str, str | None]:
    return {
        "name": partner.name,
        "country": partner.country,
        "email": partner.email,
        "legal_form": partner.legal_form,
        "bank_holder": partner.bank_holder,
        "iban": partner.iban,
        "run_id": context.run,
    }


def _account_compared(partner: Partner, context: EffectContext) -> Mapping[str, str | None]:
    """Stripe never gives the whole number back: the last four characters stand for it."""
    return {
        "name": partner.name,
        "country": partner.country,
        "email": partner.email,
        "bank_holder": partner.bank_holder,
        "iban_last4": partner.iban[-4:],
    }


def _task(partner: Partner, context: EffectContext) -> Mapping[str, str | None]:
    account = context.references["create-account"]
    return {
        "subject_id": context.subject.object_id if context.subject.system == "hubspot" else None,
        "owner": context.owner,
        "title": "Verify partner account",
        "body": f"Run {context.run}: check provider account {account}",
        "due_at": (context.read_at + TASK_DUE_AFTER).isoformat(timespec="milliseconds"),
        "run_id": context.run,
    }


def _task_compared(partner: Partner, context: EffectContext) -> Mapping[str, str | None]:
    """What the task says. Its owner, status and due time belong to people once it is made."""
    fields = _task(partner, context)
    return {name: fields[name] for name in ("title", "body")}


CREATE_ACCOUNT = Effect(
    "create-account", "stripe", "create_account", _account, "Create provider account", _account_compared
)
VERIFICATION_TASK = Effect(
    "verification-task", "hubspot", "create_task", _task, "Make verification task", _task_compared
)

ONBOARDING = Process(
    name="partner-onboarding",
    policy="2026-12",
    inputs=Partner,
    trigger=Trigger("hubspot", "0-2", "onboarding_stage", "submitted", inline=True),
    linked_type="contacts",
    linked_object_type="0-1",
    review=ReviewPolicy(role="supervisor", deadline=timedelta(days=3), valid_for=timedelta(days=14)),
    effects=(CREATE_ACCOUNT, VERIFICATION_TASK),
    account_step="create-account",
)
