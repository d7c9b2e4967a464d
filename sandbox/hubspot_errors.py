"""HubSpot's error bodies.

Sources: developers.hubspot.com error handling; github.com/HubSpot/hubspot-api-php/issues/59 for the conflict text.
"""

from __future__ import annotations

import json
import uuid

from sandbox.wire import Answer, Json, Refusal, json_answer


def error_body(category: str, message: str) -> Json:
    return {"status": "error", "message": message, "correlationId": str(uuid.uuid4()), "category": category}


class HubspotRefusal(Refusal):
    """A refused call; in a batch the body is reported for one input."""

    def __init__(self, status: int, category: str, message: str) -> None:
        self.body = error_body(category, message)
        super().__init__(json_answer(self.body, status))

    def with_context(self, context: Json) -> HubspotRefusal:
        self.body["context"] = context
        self.answer = json_answer(self.body, self.answer.status)
        return self


def unauthorized() -> HubspotRefusal:
    text = (
        "Authentication credentials not found. This API supports OAuth 2.0 authentication and you can find more "
        "details at https://developers.hubspot.com/docs/methods/auth/oauth-overview"
    )
    return HubspotRefusal(401, "INVALID_AUTHENTICATION", text)


def not_found(what: str = "resource") -> HubspotRefusal:
    return HubspotRefusal(404, "OBJECT_NOT_FOUND", f"{what} not found")


def invalid_input(message: str) -> HubspotRefusal:
    return HubspotRefusal(400, "VALIDATION_ERROR", message)


def contact_exists(existing_id: str) -> HubspotRefusal:
    """The existing id is in the message text and nowhere else."""
    return HubspotRefusal(409, "CONFLICT", f"Contact already exists. Existing ID: {existing_id}")


def invalid_properties(problems: list[Json]) -> HubspotRefusal:
    return invalid_input(f"Property values were not valid: {json.dumps(problems)}")


def unknown_property(name: str, portal_id: int) -> Json:
    text = f'Property "{name}" does not exist'
    return {
        "isValid": False,
        "message": text,
        "error": "PROPERTY_DOESNT_EXIST",
        "name": name,
        "localizedErrorMessage": text,
        "portalId": portal_id,
    }


def read_only_property(name: str) -> Json:
    text = f'"{name}" is a read only property; its value cannot be set.'
    return {"isValid": False, "message": text, "error": "READ_ONLY_VALUE", "name": name, "localizedErrorMessage": text}


def missing_properties(singular: str, names: list[str]) -> HubspotRefusal:
    refusal = invalid_input(f"Error creating {singular.upper()}. Some required properties were not set.")
    return refusal.with_context({"properties": names})


def value_taken(name: str, value: str, existing_id: str) -> Json:
    text = f"Cannot set {name} to {value}. {existing_id} already has that value."
    return {
        "isValid": False,
        "message": text,
        "error": "CONFLICTING_UNIQUE_VALUE",
        "name": name,
        "localizedErrorMessage": text,
    }


def rate_limited(policy: str) -> Answer:
    """429 as answered before execution. Source of body and headers: HubSpot usage guidelines."""
    body = {
        "status": "error",
        "message": f"You have reached your {policy.lower()} limit.",
        "errorType": "RATE_LIMIT",
        "policyName": policy,
        "correlationId": str(uuid.uuid4()),
    }
    return json_answer(body, 429).with_headers(
        ("X-HubSpot-RateLimit-Max", "100"),
        ("X-HubSpot-RateLimit-Remaining", "0"),
        ("X-HubSpot-RateLimit-Interval-Milliseconds", "10000"),
        ("X-HubSpot-RateLimit-Daily", "250000"),
        ("X-HubSpot-RateLimit-Daily-Remaining", "249000"),
    )
