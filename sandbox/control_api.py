"""The sandbox's own endpoints: faults, settings, seeding, inspection. Open to whoever reaches the port."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from sandbox.faults import FaultBook, Rule
from sandbox.hubspot_api import HubspotApi, author_of
from sandbox.hubspot_schema import COMPANIES, CONTACTS, object_type
from sandbox.practice_api import PracticeApi
from sandbox.records import Records, Row
from sandbox.request_log import RequestLog
from sandbox.settings import Knobs, Settings
from sandbox.wire import Answer, Call, Json, Refusal, Route, json_answer, json_object, routed

PRIMARY_CONTACT = 2
_COUNTERS = ("next_object_id", "next_event_id")


class ControlApi:
    """Answers calls; each runs in one transaction of the caller."""

    def __init__(
        self, records: Records, settings: Settings, knobs: Knobs, hubspot: HubspotApi, practice: PracticeApi
    ) -> None:
        self._records = records
        self._settings = settings
        self._knobs = knobs
        self._hubspot = hubspot
        self._practice = practice
        self._faults = FaultBook(records)
        self._log = RequestLog(records)
        self._routes = [
            Route("GET", "/sandbox/health", self._health),
            Route("POST", "/sandbox/faults", self._add_fault),
            Route("GET", "/sandbox/faults", self._list_faults),
            Route("DELETE", "/sandbox/faults", self._clear_faults),
            Route("GET", "/sandbox/settings", self._settings_now),
            Route("POST", "/sandbox/settings", self._change_settings),
            Route("POST", "/sandbox/properties", self._add_property),
            Route("POST", "/sandbox/seed", self._seed),
            Route("POST", "/sandbox/reset", self._reset),
            Route("GET", "/sandbox/requests", self._requests),
            Route("GET", "/sandbox/webhooks", self._webhooks),
            Route("GET", "/sandbox/records/{system}/{type}", self._stored),
        ]

    def answer(self, call: Call) -> Answer:
        try:
            answer = routed(self._routes, call)
        except ValidationError as error:
            raise Refusal(
                json_answer({"error": error.errors(include_url=False, include_context=False)}, 400)
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal(json_answer({"error": f"cannot read the request: {error!r}"}, 400)) from error
        return answer or json_answer({"error": "no such control endpoint"}, 404)

    def _health(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer({"status": "ok"})

    def _add_fault(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer({"id": self._faults.add(Rule.model_validate(_body(call)))}, 201)

    def _list_faults(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self._faults.listed())

    def _clear_faults(self, call: Call, args: dict[str, str]) -> Answer:
        self._faults.clear()
        return Answer(204)

    def _settings_now(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self._knobs.now.model_dump())

    def _change_settings(self, call: Call, args: dict[str, str]) -> Answer:
        changes = _body(call)
        counters = {name: int(changes.pop(name)) for name in _COUNTERS if name in changes}
        self._knobs.change(changes)
        for name, value in counters.items():
            self._records.keep(name, value)
        return self._settings_now(call, args)

    def _add_property(self, call: Call, args: dict[str, str]) -> Answer:
        body = _body(call)
        kind = object_type(str(body.get("type")))
        self._hubspot.objects.schema.add(kind, str(body["name"]), unique=bool(body.get("unique", False)))
        return Answer(204)

    def _seed(self, call: Call, args: dict[str, str]) -> Answer:
        """Owner, company and its primary contact, made by the CRM user that `actor` names."""
        body = _body(call)
        owner = self._hubspot.owners.add(body["owner"]) if "owner" in body else None
        actor = {} if body.get("actor") is None else {"x-sandbox-actor": str(body["actor"])}
        author = author_of(Call("POST", call.path, headers=actor), self._settings.hubspot_app_id)
        company = dict(body.get("company", {}))
        if owner:
            company.setdefault("hubspot_owner_id", owner["id"])
        links: list[Any] = []
        ids = {"ownerId": owner["id"] if owner else None, "contactId": None}
        if "contact" in body:
            ids["contactId"] = self._hubspot.objects.create(CONTACTS, body["contact"], (), author).id
            links = [{"to": {"id": ids["contactId"]}, "types": [{"associationTypeId": PRIMARY_CONTACT}]}]
        made = self._hubspot.objects.create(COMPANIES, company, links, author)
        return json_answer({**ids, "companyId": made.id}, 201)

    def _reset(self, call: Call, args: dict[str, str]) -> Answer:
        self._records.clear()
        self._knobs.load()
        return Answer(204)

    def _requests(self, call: Call, args: dict[str, str]) -> Answer:
        limit = int(call.first("limit") or 1000)
        shown = self._log.listed(call.first("key"), call.first("path_prefix"), call.first("method"), limit)
        return json_answer(shown)

    def _webhooks(self, call: Call, args: dict[str, str]) -> Answer:
        rows = self._records.rows("select * from webhooks order by seq")
        return json_answer([_delivery(row) for row in rows])

    def _stored(self, call: Call, args: dict[str, str]) -> Answer:
        if (args["system"], args["type"]) == ("stripe", "accounts"):
            return json_answer([_account(row) for row in self._records.rows("select * from accounts order by seq")])
        if (args["system"], args["type"]) == ("hubspot", "owners"):
            return json_answer(self._hubspot.owners.listed())
        if args["system"] == "practice":
            return json_answer(self._practice.accounts.listed(args["type"]))
        if args["system"] != "hubspot":
            return json_answer({"error": "no such system"}, 404)
        kind = object_type(args["type"])
        rows = self._records.rows("select * from objects where type = ? order by seq", kind.name)
        return json_answer([{**_object(row), "associations": self._links(row)} for row in rows])

    def _links(self, row: Row) -> list[Json]:
        links = self._records.rows(
            "select to_type, to_id, type_id from associations where from_type = ? and from_id = ?",
            row["type"],
            row["id"],
        )
        return [{"type": link["to_type"], "id": link["to_id"], "associationTypeId": link["type_id"]} for link in links]


def _body(call: Call) -> Json:
    body = json_object(call)
    if body is None:
        raise Refusal(json_answer({"error": "the body must be a JSON object"}, 400))
    return body


def _object(row: Row) -> Json:
    plain = {name: row[name] for name in ("id", "type", "created_ms", "updated_ms")}
    parsed = {name: json.loads(row[name]) for name in ("properties", "history")}
    return {**plain, **parsed, "archived": row["archived_ms"] is not None}


def _account(row: Row) -> Json:
    return {**json.loads(row["body"]), "deleted": bool(row["deleted"])}


def _delivery(row: Row) -> Json:
    return {"url": row["url"], "attempts": row["attempt"], "state": row["state"], "event": json.loads(row["event"])}
