"""Client of the sandbox's control endpoints, for the demo and for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

_ANSWER_SECONDS = 60.0
_DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Seeded:
    """Ids of what one seeding made."""

    company_id: str
    contact_id: str | None
    owner_id: str | None


class SandboxControl:
    """Every method raises httpx.HTTPStatusError on a refused control call. Times are seconds."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        # verify=False spares 50 ms of loading certificates that plain HTTP never uses
        self._http = httpx.Client(base_url=self.base_url, timeout=_ANSWER_SECONDS, trust_env=False, verify=False)

    def __enter__(self) -> SandboxControl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def healthy(self) -> bool:
        try:
            return self._http.get("/sandbox/health").is_success
        except httpx.TransportError:
            return False

    def wait_until_healthy(self, seconds: float = _DEADLINE_SECONDS) -> None:
        """Raises TimeoutError."""
        _wait(self.healthy, seconds, f"no sandbox answers at {self.base_url}")

    def reset(self) -> None:
        self._call("POST", "/sandbox/reset")

    def fault(self, name: str, *, times: int = 1, match: dict[str, str] | None = None, **params: object) -> int:
        """Sets a fault for the next `times` calls that fit `match` (method, path_prefix, key, system); its id."""
        rule = {"match": match or {}, "fault": name, "times": times, "params": params}
        return int(self._call("POST", "/sandbox/faults", rule)["id"])

    def faults(self) -> list[dict[str, Any]]:
        return list(self._call("GET", "/sandbox/faults"))

    def clear_faults(self) -> None:
        self._call("DELETE", "/sandbox/faults")

    def settings(self, **changes: object) -> dict[str, Any]:
        """Changes the settings given (see sandbox.settings.Adjustable, next_object_id, next_event_id); all in force."""
        return dict(self._call("POST", "/sandbox/settings", changes))

    def add_property(self, kind: str, name: str, *, unique: bool = False) -> None:
        self._call("POST", "/sandbox/properties", {"type": kind, "name": name, "unique": unique})

    def seed(
        self,
        company: dict[str, str],
        *,
        contact: dict[str, str] | None = None,
        owner: dict[str, object] | None = None,
        actor: str | None = None,
    ) -> Seeded:
        """Owner, company and its primary contact, made by the CRM user `actor` (userId:N) or by the integration."""
        given = {"company": company, "contact": contact, "owner": owner, "actor": actor}
        made = self._call("POST", "/sandbox/seed", {name: part for name, part in given.items() if part is not None})
        return Seeded(made["companyId"], made["contactId"], made["ownerId"])

    def records(self, system: str, kind: str) -> list[dict[str, Any]]:
        """All records in full, archived and deleted ones included, oldest first."""
        return list(self._call("GET", f"/sandbox/records/{system}/{kind}"))

    def requests(self, **only: str) -> list[dict[str, Any]]:
        """Received requests, oldest first; `key`, `path_prefix`, `method`, `limit` narrow them down."""
        return list(self._call("GET", "/sandbox/requests", params=only))

    def webhooks(self) -> list[dict[str, Any]]:
        """Queued and delivered webhook events with their number of attempts and state, oldest first."""
        return list(self._call("GET", "/sandbox/webhooks"))

    def wait_until_delivered(self, seconds: float = _DEADLINE_SECONDS) -> None:
        """Until no webhook event is pending. Raises TimeoutError."""
        _wait(self._delivered, seconds, "webhook events are still pending")

    def _delivered(self) -> bool:
        return all(event["state"] != "pending" for event in self.webhooks())

    def _call(self, method: str, path: str, body: object = None, params: dict[str, str] | None = None) -> Any:  # noqa: ANN401 (any JSON)
        answer = self._http.request(method, path, json=body, params=params)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def _wait(condition: Callable[[], bool], seconds: float, complaint: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(0.02)
