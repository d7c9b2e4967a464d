"""Faults set over HTTP: which calls they hit, and what they do to the execution and the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote_plus

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sandbox import hubspot_errors
from sandbox.fault_answers import SPEECH, Params
from sandbox.records import Records
from sandbox.wire import Answer, Call, json_answer

Distortion = Callable[[Answer, Params, str], Answer]
Ending = Literal["answer", "hang_up", "cut"]
_HEADER_TEXT = re.compile(r"(?:[\x21-\x7e\xa0-\xff](?:[\t\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa0-\xff])?)?")
HTML = b"<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Something went wrong</h1></body></html>"
_HTML_TYPE = (("content-type", "text/html; charset=utf-8"),)


@dataclass(frozen=True)
class Fault:
    """What one kind of fault does.

    `executes`: whether the call still takes effect (params `executed` overrides it). `stored`: whether the distorted
    answer replaces the one kept under the idempotency key (params `stored` overrides it). `unread`: the connection is
    closed once the request head is in, so that only method, path and headers can be matched. `hides`: what was made
    cannot be read for `seconds` (practice accounts only).
    """

    executes: bool
    distort: Distortion = lambda genuine, params, system: genuine
    ending: Ending = "answer"
    stored: bool = False
    unread: bool = False
    delay: Literal["before", "after", "detached"] | None = None
    hides: bool = False


def _html(status: int) -> Distortion:
    return lambda genuine, params, system: Answer(status, HTML, _HTML_TYPE)


def _json(value: object) -> Distortion:
    return lambda genuine, params, system: json_answer(value)


def _internal_error(genuine: Answer, params: Params, system: str) -> Answer:
    return SPEECH[system].internal_error()


def _unavailable(genuine: Answer, params: Params, system: str) -> Answer:
    return SPEECH[system].unavailable().with_headers(("Retry-After", str(params.get("retry_after", "1"))))


def _redirect(genuine: Answer, params: Params, system: str) -> Answer:
    return Answer(302, b"", (("location", str(params.get("location", "https://elsewhere.example.test/login"))),))


def _throttled(genuine: Answer, params: Params, system: str) -> Answer:
    given = params.get("retry_after", [])
    waits = (("Retry-After", text) for text in ([given] if isinstance(given, str) else given))
    return SPEECH[system].throttled(params).with_headers(*waits)


def _busy(genuine: Answer, params: Params, system: str) -> Answer:
    return SPEECH[system].busy(params)


def _locked(genuine: Answer, params: Params, system: str) -> Answer:
    return json_answer(hubspot_errors.error_body("LOCKED", "The resource is locked"), 423)


def _migrating(genuine: Answer, params: Params, system: str) -> Answer:
    body = hubspot_errors.error_body("MIGRATION_IN_PROGRESS", "A migration between data centres is in progress")
    return json_answer(body, 477).with_headers(("Retry-After", str(params.get("retry_after", "60"))))


def _in_records(genuine: Answer, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    """Changes the record of a success, or every record of a batch answer."""
    if genuine.status >= 300:
        return genuine
    body = genuine.json()
    changed = {**body, "results": [change(one) for one in body["results"]]} if "results" in body else change(body)
    return replace(genuine, body=json.dumps(changed).encode())


def _with_id(value: object) -> Distortion:
    return lambda genuine, params, system: _in_records(genuine, lambda record: {**record, "id": value})


def _foreign(genuine: Answer, params: Params, system: str) -> Answer:
    """A success that names another partner's record."""
    changed = _in_records(genuine, lambda record: SPEECH[system].foreign(record, params))
    return replace(changed, status=201) if changed.status < 300 else changed


def _same_with_html(genuine: Answer, params: Params, system: str) -> Answer:
    return Answer(200, HTML, (("content-type", "application/json"),))


FAULTS: dict[str, Fault] = {
    "refuse": Fault(False, ending="hang_up", unread=True),
    "drop_before": Fault(False, ending="hang_up"),
    "drop_after_commit": Fault(True, ending="hang_up"),
    "drop_after_hidden_commit": Fault(True, ending="hang_up", hides=True),
    "drop_then_commit": Fault(True, ending="hang_up", delay="detached"),
    "commit_500": Fault(True, _internal_error, stored=True),
    "commit_502_html": Fault(True, _html(502)),
    "commit_503_retry_after": Fault(True, _unavailable),
    "commit_504_empty": Fault(True, lambda genuine, params, system: Answer(504)),
    "commit_cut_body": Fault(True, ending="cut"),
    "commit_redirect": Fault(True, _redirect),
    "html_200": Fault(False, _html(200)),
    "json_content_type_with_html": Fault(False, _same_with_html),
    "html_403": Fault(False, _html(403)),
    "body_status_error": Fault(False, _json({"status": "error"})),
    "empty_object": Fault(True, _json({})),
    "id_null": Fault(True, _with_id(None)),
    "id_empty": Fault(True, _with_id("")),
    "wrong_record": Fault(True, _foreign),
    "error_500_before": Fault(False, _internal_error),
    "error_500_empty": Fault(False, lambda genuine, params, system: Answer(500)),
    "slow_before": Fault(True, delay="before"),
    "slow_after": Fault(True, delay="after"),
    "throttle_429": Fault(False, _throttled),
    "commit_429": Fault(True, _throttled),
    "busy_409": Fault(False, _busy),
    "lock_423": Fault(False, _locked),
    "migration_477": Fault(False, _migrating),
}


class Match(BaseModel):
    """All given conditions must hold. `key` is the idempotency key, or any text of the body (an operation key)."""

    model_config = ConfigDict(extra="forbid")

    method: str | None = None
    path_prefix: str | None = None
    key: str | None = None
    system: Literal["hubspot", "practice", "stripe"] | None = None

    def fits(self, call: Call, system: str) -> bool:
        return (
            self.method in (None, call.method)
            and call.path.startswith(self.path_prefix or "")
            and self.system in (None, system)
            and (self.key is None or self._carries(call, self.key))
        )

    def _carries(self, call: Call, key: str) -> bool:
        return key == call.header("idempotency-key") or key in call.text() or key in unquote_plus(call.text())


class Rule(BaseModel):
    """One fault that was set; it hits the first `times` calls that fit."""

    model_config = ConfigDict(extra="forbid")

    match: Match = Match()
    fault: str
    times: int = Field(1, ge=1)
    params: dict[str, Any] = {}

    @field_validator("params")
    @classmethod
    def _sendable(cls, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("retry_after", [])
        for text in [given] if isinstance(given, str) else given:
            if not _HEADER_TEXT.fullmatch(text):
                raise ValueError("retry_after must be text that fits into an HTTP header")
        return params

    @field_validator("fault")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in FAULTS:
            raise ValueError(f"unknown fault, known are: {', '.join(FAULTS)}")
        return name

    @property
    def kind(self) -> Fault:
        return FAULTS[self.fault]

    @property
    def executes(self) -> bool:
        return bool(self.params.get("executed", self.kind.executes))

    @property
    def stored(self) -> bool:
        return bool(self.params.get("stored", self.kind.stored))

    @property
    def seconds(self) -> float:
        return float(self.params.get("seconds", 1.0))

    def distorted(self, genuine: Answer, system: str) -> Answer:
        """Refusals of the pretended system pass as they are where the fault needs a record to distort."""
        try:
            return self.kind.distort(genuine, self.params, system)
        except ValueError:
            return genuine


class FaultBook:
    """The faults in force, kept in the data file. Each is used up by the calls it hits, oldest fault first."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def add(self, rule: Rule) -> int:
        insert = "insert into faults (rule, remaining) values (?, ?)"
        return self._records.write(insert, rule.model_dump_json(), rule.times)

    def listed(self) -> list[dict[str, Any]]:
        rows = self._records.rows("select * from faults order by id")
        return [{"id": row["id"], "remaining": row["remaining"], **json.loads(row["rule"])} for row in rows]

    def clear(self) -> None:
        self._records.write("delete from faults")

    def taken(self, call: Call, system: str, *, unread: bool) -> Rule | None:
        """The fault that hits this call, counted down. `unread` looks at faults that act on the request head."""
        for row in self._records.rows("select * from faults where remaining > 0 order by id"):
            rule = Rule.model_validate_json(row["rule"])
            if rule.kind.unread == unread and rule.match.fits(call, system):
                self._records.write("update faults set remaining = remaining - 1 where id = ?", row["id"])
                return rule
        return None
