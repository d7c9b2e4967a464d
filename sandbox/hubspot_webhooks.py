"""HubSpot's webhook events."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.clock import now_ms
from sandbox.records import Records
from sandbox.settings import Knobs, Settings
from sandbox.webhook_queue import queue
from sandbox.wire import Json

FIRST_EVENT_ID = 4100200301
SUBSCRIPTIONS = {"object.propertyChange": 550011, "object.creation": 550012, "object.merge": 550013}
OTHER_SUBSCRIPTION = 550014


@dataclass(frozen=True)
class Author:
    """Who changed a record: a CRM user (given by `X-Sandbox-Actor: userId:N`) or the integration itself."""

    source_type: str
    source_id: str
    user_id: int | None = None


class Events:
    """Writes events into the queue, one delivery for each target URL, in the caller's transaction."""

    def __init__(self, records: Records, settings: Settings, knobs: Knobs) -> None:
        self._records = records
        self._settings = settings
        self._knobs = knobs

    def property_changed(self, about: Json, name: str, value: str | None) -> None:
        wanted = self._knobs.now.webhook_properties
        if wanted is None or name in wanted:
            fields = {"propertyName": name, "propertyValue": value or "", "isSensitive": False}
            self.emit("object.propertyChange", {**about, **fields})

    def emit(self, subscription: str, fields: Json) -> None:
        types = self._knobs.now.webhook_types
        if types is not None and fields["objectTypeId"] not in types:
            return
        event = {
            "eventId": self._records.next_number("next_event_id", FIRST_EVENT_ID),
            "subscriptionId": SUBSCRIPTIONS.get(subscription, OTHER_SUBSCRIPTION),
            "portalId": self._settings.hubspot_portal_id,
            "appId": self._settings.hubspot_app_id,
            "occurredAt": now_ms(),
            "subscriptionType": subscription,
            **fields,
        }
        for url in self._knobs.now.webhook_urls:
            queue(self._records, url, "hubspot", event)


def about(object_id: str, type_id: str, author: Author) -> Json:
    """The fields every event has. objectId is a JSON integer of any size."""
    return {
        "objectId": int(object_id),
        "objectTypeId": type_id,
        "changeSource": author.source_type,
        "sourceId": author.source_id,
    }
