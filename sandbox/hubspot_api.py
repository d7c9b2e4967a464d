"""The part of HubSpot's HTTP API that Counterfoil uses, under its v3 and its dated paths."""

from __future__ import annotations

import hmac
from typing import Any

from sandbox.hubspot_batches import Batches
from sandbox.hubspot_errors import invalid_input, not_found, unauthorized
from sandbox.hubspot_oauth import PATH, OAuth
from sandbox.hubspot_objects import Objects
from sandbox.hubspot_owners import Owners
from sandbox.hubspot_render import detailed, page, plain
from sandbox.hubspot_schema import object_type, plain_association
from sandbox.hubspot_search import MOST, search
from sandbox.hubspot_webhooks import Author, Events
from sandbox.pretended import Pretended
from sandbox.records import Records
from sandbox.settings import Knobs, Settings
from sandbox.wire import Answer, Call, Json, Route, json_answer, json_object, routed

_PREFIXES = ("/crm/v3/objects", "/crm/objects/{version}")
_V4 = "/crm/v4/objects"


def author_of(call: Call, app_id: int) -> Author:
    """`X-Sandbox-Actor: userId:N` makes the change a CRM user's; without it the integration made it."""
    actor = call.header("x-sandbox-actor")
    if actor is None:
        return Author("INTEGRATION", str(app_id))
    number = actor.removeprefix("userId:")
    return Author("CRM_UI", actor, int(number) if number.isdigit() else None)


class HubspotApi(Pretended):
    """Answers calls; each runs in one transaction of the caller."""

    def __init__(self, records: Records, settings: Settings, knobs: Knobs) -> None:
        self._settings = settings
        self._knobs = knobs
        self.objects = Objects(records, Events(records, settings, knobs), settings.hubspot_portal_id)
        self.owners = Owners(records)
        self._oauth = OAuth(records, settings, knobs)
        self._batches = Batches(records, self.objects)
        self._routes = self._all_routes()

    def answer(self, call: Call) -> Answer:
        """Raises HubSpot's refusals."""
        if (call.method, call.path) == ("POST", PATH):
            return self._oauth.token(call)
        if not self._authorized((call.header("authorization") or "").removeprefix("Bearer ")):
            raise unauthorized()
        answer = routed(self._routes, call)
        if answer is None:
            raise not_found()
        return answer

    def _authorized(self, token: str) -> bool:
        if hmac.compare_digest(token.encode(), self._settings.hubspot_token.encode()):
            return not self._knobs.now.hubspot_token_revoked
        return self._oauth.accepts(token)

    def _all_routes(self) -> list[Route]:
        common = [
            Route("GET", "/account-info/v3/details", self._account),
            Route("GET", "/crm/v3/owners/{id}", self._owner),
            Route("GET", "/crm/v3/owners/?", self._owners),
            Route("GET", "/crm/v3/properties/{type}", self._properties),
            Route("GET", "/crm/v3/properties/{type}/{name}", self._property),
            Route("PUT", _V4 + "/{type}/{id}/associations/default/{end}/{other}", self._associate),
            Route("GET", _V4 + "/{type}/{id}/associations/{end}", self._associated),
        ]
        return [route for prefix in _PREFIXES for route in self._object_routes(prefix + "/{type}")] + common

    def _object_routes(self, base: str) -> list[Route]:
        return [
            Route("POST", base + "/search", self._search),
            Route("POST", base + "/merge", self._merge),
            Route("POST", base + "/batch/upsert", self._upsert),
            Route("POST", base + "/batch/read", self._batch_read),
            Route("POST", base, self._create),
            Route("GET", base, self._list),
            Route("GET", base + "/{id}", self._read),
            Route("PATCH", base + "/{id}", self._change),
            Route("DELETE", base + "/{id}", self._archive),
        ]

    def _author(self, call: Call) -> Author:
        return author_of(call, self._settings.hubspot_app_id)

    def _create(self, call: Call, args: dict[str, str]) -> Answer:
        kind, body = object_type(args["type"]), _body(call)
        properties, links = _properties_of(body), body.get("associations") or []
        if not isinstance(links, list):
            raise invalid_input("Invalid input JSON: associations must be a list")
        made = self.objects.create(kind, properties, links, self._author(call))
        return json_answer(plain(made, properties, self.objects.schema.known(kind)), 201)

    def _read(self, call: Call, args: dict[str, str]) -> Answer:
        found = self.objects.find(object_type(args["type"]), args["id"], call.first("idProperty"))
        return json_answer(detailed(self.objects, found, call))

    def _list(self, call: Call, args: dict[str, str]) -> Answer:
        found = self.objects.listed(object_type(args["type"]))
        shown, paging = page(found, call.first("after"), call.first("limit"), 100)
        return json_answer({"results": [detailed(self.objects, one, call) for one in shown], **paging})

    def _change(self, call: Call, args: dict[str, str]) -> Answer:
        kind, properties = object_type(args["type"]), _properties_of(_body(call))
        found = self.objects.find(kind, args["id"], call.first("idProperty"))
        saved = self.objects.change(found, properties, self._author(call))
        return json_answer(plain(saved, properties, self.objects.schema.known(kind)))

    def _archive(self, call: Call, args: dict[str, str]) -> Answer:
        self.objects.archive(self.objects.find(object_type(args["type"]), args["id"]), self._author(call))
        return Answer(204)

    def _search(self, call: Call, args: dict[str, str]) -> Answer:
        kind, body = object_type(args["type"]), _body(call)
        hits = search(self.objects, kind, body, self._knobs.now.search_lag)
        shown, paging = page(hits, body.get("after"), body.get("limit"), MOST)
        known = self.objects.schema.known(kind)
        results = [plain(found, body.get("properties") or (), known) for found in shown]
        return json_answer({"total": len(hits), "results": results, **paging})

    def _merge(self, call: Call, args: dict[str, str]) -> Answer:
        kind, body = object_type(args["type"]), _body(call)
        primary = self.objects.find(kind, str(body.get("primaryObjectId")))
        other = self.objects.find(kind, str(body.get("objectIdToMerge")))
        if primary.id == other.id:
            raise invalid_input("Cannot merge an object with itself")
        merged = self.objects.merge(primary, other, self._author(call), new_id=self._knobs.now.merge_new_id)
        return json_answer(plain(merged, merged.properties, self.objects.schema.known(kind)))

    def _upsert(self, call: Call, args: dict[str, str]) -> Answer:
        return self._batches.upsert(object_type(args["type"]), _body(call), self._author(call))

    def _batch_read(self, call: Call, args: dict[str, str]) -> Answer:
        return self._batches.read(object_type(args["type"]), _body(call))

    def _associate(self, call: Call, args: dict[str, str]) -> Answer:
        kind, end = object_type(args["type"]), object_type(args["end"])
        association = plain_association(kind, end)
        if association is None:
            raise invalid_input(f"No association from {kind.name} to {end.name}")
        self.objects.find(kind, args["id"])
        self.objects.associations.add(association, args["id"], args["other"])
        ends = {"from": {"id": args["id"]}, "to": {"id": args["other"]}}
        spec = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": association.type_id}
        return json_answer({"status": "COMPLETE", "results": [{**ends, "associationSpec": spec}]})

    def _associated(self, call: Call, args: dict[str, str]) -> Answer:
        kind = object_type(args["type"])
        links = self.objects.associations.of(kind, self.objects.find(kind, args["id"]).id, object_type(args["end"]))
        types: dict[str, list[Json]] = {}
        for other, association in links:
            described = {"category": "HUBSPOT_DEFINED", "typeId": association.type_id, "label": association.label}
            types.setdefault(other, []).append(described)
        results = [{"toObjectId": int(other), "associationTypes": kinds} for other, kinds in types.items()]
        return json_answer({"results": results})

    def _account(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(
            {
                "portalId": self._settings.hubspot_portal_id,
                "accountType": "DEVELOPER_TEST",
                "timeZone": "Europe/Berlin",
                "companyCurrency": "EUR",
                "additionalCurrencies": [],
                "utcOffset": "+01:00",
                "utcOffsetMilliseconds": 3600000,
                "uiDomain": "app.hubspot.com",
                "dataHostingLocation": "eu1",
            }
        )

    def _owner(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self.owners.find(args["id"], by_user=call.first("idProperty") == "userId"))

    def _owners(self, call: Call, args: dict[str, str]) -> Answer:
        shown, paging = page(self.owners.listed(call.first("email")), call.first("after"), call.first("limit"), 500)
        return json_answer({"results": shown, **paging})

    def _properties(self, call: Call, args: dict[str, str]) -> Answer:
        known = self.objects.schema.known(object_type(args["type"]))
        return json_answer({"results": [self._described(args["type"], name) for name in sorted(known)]})

    def _property(self, call: Call, args: dict[str, str]) -> Answer:
        if args["name"] not in self.objects.schema.known(object_type(args["type"])):
            raise not_found(f"Property {args['name']}")
        return json_answer(self._described(args["type"], args["name"]))

    def _described(self, type_name: str, name: str) -> Json:
        unique = name in self.objects.schema.unique(object_type(type_name))
        shape = {"type": "string", "fieldType": "text", "groupName": "sandbox", "description": ""}
        return {"name": name, "label": name, "hasUniqueValue": unique, "archived": False, "options": [], **shape}


def _body(call: Call) -> Json:
    body = json_object(call)
    if body is None:
        raise invalid_input("Invalid input JSON on line 1, column 1")
    return body


def _properties_of(body: Json) -> dict[str, Any]:
    properties = body.get("properties")
    if not isinstance(properties, dict):
        raise invalid_input("Invalid input JSON: properties must be an object")
    return properties
