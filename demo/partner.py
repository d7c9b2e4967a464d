"""The invented partner, and the CRM users around it."""

from __future__ import annotations

from sandbox.control import SandboxControl, Seeded

MANAGER, AMENDER = "61000001", "61000002"
AMENDED_IBAN = "DE02120300000000202051"
COMPANY = {
    "name": "Nordwind Handels GmbH",
    "country": "DE",
    "partner_email": "konto@nordwind.example",
    "legal_form": "GmbH",
    "bank_holder": "Nordwind Handels GmbH",
    "iban": "DE89370400440532013000",
    "phone": "+49 30 5550100",
    "description": "Wholesale partner",
}
CONTACT = {"firstname": "Petra", "lastname": "Kraft"}
OWNER: dict[str, object] = {"email": "olaf.owner@crm.example", "firstName": "Olaf", "lastName": "Owner"}


def seed(sandbox: SandboxControl) -> Seeded:
    """A company with its owner and primary contact, as the manager made it; not submitted yet."""
    # HubSpot allows one contact for an address
    number = len(sandbox.records("hubspot", "companies")) + 1
    contact = {**CONTACT, "email": f"petra.kraft.{number}@nordwind.example"}
    return sandbox.seed(COMPANY, contact=contact, owner=OWNER, actor=f"userId:{MANAGER}")
