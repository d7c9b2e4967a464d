"""Store, engine, CRM and provider side by side: each column read by its own client, compared field by field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from demo import engine

Column = dict[str, str | None]
Columns = Mapping[str, Column]
WIDTH = 33
MISSING = "(missing)"
NOT_KEPT = ""

RUN = """
    SELECT run.id, run.state, run.reason, run.sealed_version, request.business_key, v.canonical, v.owner
    FROM run JOIN request ON request.id = run.request_id
    JOIN input_version v ON v.request_id = run.request_id AND v.number = run.sealed_version
    WHERE run.id = %s
"""
OPERATIONS = "SELECT step, key, reference, content FROM operation WHERE run_id = %s AND outcome = 'accepted'"
COMPANY = (
    *("name", "country", "partner_email", "legal_form", "bank_holder", "iban", "hubspot_owner_id"),
    *("counterfoil_state", "counterfoil_reason", "counterfoil_run", "counterfoil_account"),
)
TASK = ("hs_task_subject", "hs_task_body", "hubspot_owner_id", "operation_key")


def store(dsn: str, run_id: str) -> Column:
    """By psycopg: what is recorded."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        run = connection.execute(RUN, [run_id]).fetchone() or {}
        rows = connection.execute(OPERATIONS, [run_id]).fetchall()
    made = {row["step"]: row for row in rows}
    inputs = json.loads(run.get("canonical") or b"{}")
    account, task = made.get("create-account", {}), made.get("verification-task", {})
    sent = json.loads(task.get("content") or b"{}").get("properties", {})
    return {
        "run": run.get("id"),
        "business key": run.get("business_key"),
        "state": run.get("state"),
        "reason": run.get("reason"),
        "input version": str(run.get("sealed_version")),
        "accounts made": str(sum(row["step"] == "create-account" for row in rows)),
        "account": account.get("reference"),
        "account key": account.get("key"),
        "name": inputs.get("name"),
        "country": inputs.get("country"),
        "e-mail": inputs.get("email"),
        "legal form": inputs.get("legal_form"),
        "bank holder": inputs.get("bank_holder"),
        "IBAN ends with": _last4(inputs.get("iban")),
        "contact": inputs.get("contact_id"),
        "tasks made": str(sum(row["step"] == "verification-task" for row in rows)),
        "task": task.get("reference"),
        "task key": task.get("key"),
        "task title": sent.get("hs_task_subject"),
        "task text": sent.get("hs_task_body"),
        "task owner": run.get("owner"),
    }


def in_engine(address: str, workflow_id: str) -> Column:
    """By Temporal's client: ids, state and version; nothing of the partner is there to be read."""
    seen = asyncio.run(engine.execution(address, workflow_id))
    return {
        "run": seen.start.get("run_id"),
        "business key": seen.attributes.get("BusinessKey"),
        "state": seen.attributes.get("BusinessState"),
        "reason": seen.attributes.get("ReasonCode"),
        "input version": seen.attributes.get("InputVersion"),
    }


def crm(client: httpx.Client, company_id: str) -> Column:
    """By HubSpot's API: the company, its contact, and the tasks that are linked to it."""
    portal = _read(client, "/account-info/v3/details")["portalId"]
    company = _read(client, f"/crm/v3/objects/companies/{company_id}", properties=",".join(COMPANY))["properties"]
    contacts, tasks = (_linked(client, company_id, kind) for kind in ("contacts", "tasks"))
    task = _task(client, tasks[0]) if tasks else {}
    return {
        "run": company.get("counterfoil_run"),
        "business key": f"{portal}-0-2-{company_id}",
        "state": company.get("counterfoil_state"),
        "reason": (company.get("counterfoil_reason") or "").rpartition(": ")[2] or None,
        "account": company.get("counterfoil_account"),
        "name": company.get("name"),
        "country": company.get("country"),
        "e-mail": company.get("partner_email"),
        "legal form": company.get("legal_form"),
        "bank holder": company.get("bank_holder"),
        "IBAN ends with": _last4(company.get("iban")),
        "contact": contacts[0] if contacts else None,
        "tasks made": str(len(tasks)),
        "task": tasks[0] if tasks else None,
        "task key": task.get("operation_key"),
        "task title": task.get("hs_task_subject"),
        "task text": task.get("hs_task_body"),
        "task owner": task.get("hubspot_owner_id"),
    }


def provider(client: httpx.Client, run_id: str) -> Column:
    """By Stripe's API: every account that names the run. Of an IBAN it gives back the last four characters."""
    listed = _read(client, "/v1/accounts", limit="100")["data"]
    ours = [account for account in listed if account["metadata"].get("run_id") == run_id]
    account: dict[str, Any] = ours[0] if ours else {}
    metadata = account.get("metadata", {})
    banks: list[dict[str, Any]] = account.get("external_accounts", {}).get("data", [])
    bank = banks[0] if banks else {}
    return {
        "run": metadata.get("run_id"),
        "accounts made": str(len(ours)),
        "account": account.get("id"),
        "account key": metadata.get("operation_key"),
        "name": account.get("company", {}).get("name"),
        "country": account.get("country"),
        "e-mail": account.get("email"),
        "legal form": metadata.get("legal_form"),
        "bank holder": bank.get("account_holder_name"),
        "IBAN ends with": bank.get("last4"),
    }


def differences(columns: Columns) -> list[str]:
    """One line for each field on which two places that keep it do not agree."""
    return [
        f"{name}: " + ", ".join(f"{place} has {value or MISSING}" for place, value in held.items())
        for name in _names(columns)
        if len(set((held := _held(columns, name)).values())) > 1
    ]


def side_by_side(columns: Columns) -> list[str]:
    """The table; long values are cut for the eye, never for the comparison."""
    rows = [("", "field", *columns)]
    for name in _names(columns):
        held = _held(columns, name)
        sign = "=" if len(set(held.values())) == 1 else "≠"
        rows.append((sign, name, *(_cell(held, place) for place in columns)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _names(columns: Columns) -> list[str]:
    return list(dict.fromkeys(name for column in columns.values() for name in column))


def _held(columns: Columns, name: str) -> Column:
    """The value in each place that keeps this field."""
    return {place: column[name] for place, column in columns.items() if name in column}


def _cell(held: Column, place: str) -> str:
    text = (held[place] or MISSING) if place in held else NOT_KEPT
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _last4(iban: str | None) -> str | None:
    return iban and iban[-4:]


def _linked(client: httpx.Client, company_id: str, kind: str) -> list[str]:
    found = _read(client, f"/crm/v4/objects/companies/{company_id}/associations/{kind}")["results"]
    return [str(link["toObjectId"]) for link in found]


def _task(client: httpx.Client, task_id: str) -> dict[str, Any]:
    return dict(_read(client, f"/crm/v3/objects/tasks/{task_id}", properties=",".join(TASK))["properties"])


def _read(client: httpx.Client, path: str, **query: str) -> Any:  # noqa: ANN401 (any JSON)
    answer = client.get(path, params=query)
    answer.raise_for_status()
    return answer.json()
