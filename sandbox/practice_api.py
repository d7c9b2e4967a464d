"""A provider of accounts for practice: the same create in every mode, with what that mode promises about a repeat."""

from __future__ import annotations

import hmac
import json

from sandbox.practice_accounts import PracticeAccounts, checked
from sandbox.practice_clock import PracticeClock
from sandbox.practice_errors import PracticeRefusal, in_progress
from sandbox.practice_keys import PracticeKeys
from sandbox.practice_modes import MODES, Mode
from sandbox.pretended import Pretended
from sandbox.records import Records
from sandbox.request_log import RequestLog
from sandbox.settings import Knobs, Settings
from sandbox.standard_webhook import message
from sandbox.webhook_queue import queue
from sandbox.wire import Answer, Call, Json, Refusal, Route, json_answer, json_object, routed


class PracticeApi(Pretended):
    """Answers calls; each runs in one transaction of the caller."""

    def __init__(self, records: Records, settings: Settings, knobs: Knobs) -> None:
        clock = PracticeClock(knobs)
        self._records = records
        self._settings = settings
        self._clock = clock
        self._keys = PracticeKeys(records, clock)
        self._log = RequestLog(records)
        self._knobs = knobs
        self.accounts = PracticeAccounts(records, clock)
        self._routes = [
            Route("POST", "/practice/{mode}/accounts", self._create),
            Route("GET", "/practice/{mode}/accounts", self._list),
            Route("GET", "/practice/{mode}/accounts/{id}", self._read),
        ]

    def answer(self, call: Call) -> Answer:
        """Raises refusals, which no key stores."""
        given = (call.header("authorization") or "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._settings.practice_token.encode()):
            raise PracticeRefusal(401, "unauthenticated")
        answer = routed(self._routes, call)
        if answer is None:
            raise PracticeRefusal(404, "no_such_endpoint")
        return answer

    def running_key(self, call: Call) -> str | None:
        key = call.header("idempotency-key")
        return f"{call.path} {key}" if key and call.method == "POST" else None

    def restate(self, call: Call, answer: Answer) -> Answer:
        """Kept under the call's key where the mode stores failures."""
        name = call.path.split("/")[2]
        keys = MODES[name].keys
        if keys is not None and keys.failures == "stored":
            self._keys.store(name, call, answer)
        return answer

    def hide(self, answer: Answer, seconds: float) -> None:
        """What this answer has made cannot be read for a while."""
        if answer.status < 300:
            self.accounts.hide(answer.json()["id"], seconds)

    def execute_later(self, call: Call, number: int, seconds: float) -> None:
        """Keeps the call, logged under this number, to be executed when `seconds` have passed on the practice clock."""
        due = self._clock.now_ms() + int(seconds * 1000)
        kept = {"method": call.method, "path": call.path, "headers": dict(call.headers), "body": call.text()}
        self._records.write("insert into practice_late values (?, ?, ?)", number, due, json.dumps(kept))

    def execute_due(self) -> None:
        """Executes what is due, in the order in which it came."""
        rows = self._records.rows(
            "select * from practice_late where due_ms <= ? order by request", self._clock.now_ms()
        )
        for row in rows:
            with self._records.transaction():
                self._records.write("delete from practice_late where request = ?", row["request"])
                kept = json.loads(row["call"])
                status = self._refusable(Call(kept["method"], kept["path"], (), kept["headers"], kept["body"].encode()))
                self._log.answered(row["request"], None, executed=status < 400)

    def _refusable(self, call: Call) -> int:
        try:
            return self.answer(call).status
        except Refusal as refusal:
            return refusal.answer.status

    def _create(self, call: Call, args: dict[str, str]) -> Answer:
        name, mode = args["mode"], _mode(args)
        if mode.keys is None:
            return self._created(name, mode, checked(json_object(call)))
        if self._is_late(call):
            return in_progress()
        repeated = self._keys.repeated(name, mode.keys, call)
        if repeated is not None:
            return repeated
        answer = self._created(name, mode, checked(json_object(call)))
        self._keys.store(name, call, answer)
        return answer

    def _is_late(self, call: Call) -> bool:
        """Whether a call with this key is waiting to be executed."""
        waiting = [json.loads(row["call"]) for row in self._records.rows("select call from practice_late")]
        key = call.header("idempotency-key")
        return any((one["path"], one["headers"].get("idempotency-key")) == (call.path, key) for one in waiting)

    def _created(self, name: str, mode: Mode, given: Json) -> Answer:
        taken = self.accounts.under(name, given["reference"]) if mode.unique != "no" else None
        if taken is not None:
            return self._taken(name, mode, given, taken["id"])
        account = self.accounts.create(name, given)
        if mode.calls_back:
            self._call_back(account)
        return json_answer(account, 201)

    def _call_back(self, account: Json) -> None:
        if self._knobs.now.practice_callback_url:
            told = message("account.created", account)
            queue(self._records, self._knobs.now.practice_callback_url, "standard", told)

    def _taken(self, name: str, mode: Mode, given: Json, holder: str) -> Answer:
        if mode.unique == "upsert":
            return json_answer(self.accounts.overwrite(name, holder, given))
        if mode.unique == "refused":
            raise PracticeRefusal(400, "reference_taken", "reference has already been taken")
        raise PracticeRefusal(409, "already_exists", f"Account already exists. Existing ID: {holder}")

    def _list(self, call: Call, args: dict[str, str]) -> Answer:
        mode = _mode(args)
        if mode.look_up == "no":
            raise PracticeRefusal(405, "no_look_up", "Accounts cannot be listed or searched")
        return json_answer(self.accounts.page(args["mode"], mode, dict(call.query)))

    def _read(self, call: Call, args: dict[str, str]) -> Answer:
        _mode(args)
        return json_answer(self.accounts.find(args["mode"], args["id"]))


def _mode(args: dict[str, str]) -> Mode:
    if args["mode"] not in MODES:
        raise PracticeRefusal(404, "no_such_mode", f"Known are: {', '.join(MODES)}")
    return MODES[args["mode"]]
