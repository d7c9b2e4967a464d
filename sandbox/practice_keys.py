"""The practice provider's idempotency keys: what is stored under one, and how a repeat is answered, by mode."""

from __future__ import annotations

import hashlib
import json

from sandbox.practice_clock import PracticeClock
from sandbox.practice_errors import PracticeRefusal, error_answer
from sandbox.practice_modes import Keys
from sandbox.records import Records
from sandbox.wire import Answer, Call, json_answer


class PracticeKeys:
    """Every method expects an open transaction."""

    def __init__(self, records: Records, clock: PracticeClock) -> None:
        self._records = records
        self._clock = clock

    def repeated(self, mode: str, keys: Keys, call: Call) -> Answer | None:
        """How the mode answers a repeat; None for a key that is new, or has been forgotten since."""
        key = (mode, _key(call))
        oldest = self._clock.now_ms() - int(self._clock.window(keys) * 1000)
        self._records.write("delete from practice_keys where mode = ? and key = ? and started_ms <= ?", *key, oldest)
        row = self._records.row("select * from practice_keys where mode = ? and key = ?", *key)
        if row is None:
            return None
        if keys.compares_body and row["body_sha256"] != _digest(call):
            raise PracticeRefusal(422, "key_reused", "The key was first used with another body")
        return _repeat(keys, Answer(row["status"], row["answer"].encode()))

    def store(self, mode: str, call: Call, answer: Answer) -> None:
        """Keeps the answer, in place of an earlier one of the same key; the window runs from the first."""
        self._records.write(
            "insert into practice_keys values (?, ?, ?, ?, ?, ?) "
            "on conflict (mode, key) do update set status = excluded.status, answer = excluded.answer",
            mode,
            _key(call),
            _digest(call),
            answer.status,
            answer.body.decode(),
            self._clock.now_ms(),
        )


def _repeat(keys: Keys, first: Answer) -> Answer:
    if keys.repeat == "same_result" or first.status >= 400:
        return json_answer(json.loads(first.body), first.status).with_headers(("Idempotent-Replayed", "true"))
    if keys.repeat == "refused":
        return error_answer(400, "already_processed", "The request was processed before")
    links = {"conflicting_resource_id": first.json()["id"]}
    return error_answer(409, "idempotent_creation_conflict", "A resource was created with this key", links=links)


def _key(call: Call) -> str:
    key = call.header("idempotency-key") or ""
    if not 0 < len(key) <= LONGEST_KEY:
        raise PracticeRefusal(400, "invalid_key", f"Idempotency-Key must have 1 to {LONGEST_KEY} characters")
    return key


def _digest(call: Call) -> str:
    return hashlib.sha256(call.body).hexdigest()


LONGEST_KEY = 64
