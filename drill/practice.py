"""The connector of the practice provider: one adapter, whose modes differ in their contracts and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from connectors.classify import Object, text
from connectors.fields import Fields, fitting, present
from connectors.reading import Reader, every_page, page_by_id, unseen
from connectors.transport import Request, Transport, segment
from domain.contracts import Contract, Keyed, LookupLagged, LookupStrong, Upsert
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Send, Sought
from domain.signals import Answer, Finding, Found
from drill.practice_answers import NAMES, classified, differences, is_account, readable
from drill.practice_contracts import BY_LIST, CREATE_ACCOUNT, KEY_HEADER, MODES, PracticeTimes, system_of

CLOCK_SKEW = timedelta(minutes=5)
PAGE = 20


class Practice:
    """One mode of the provider. Obeys domain.ports.Connector. `token` is sent to `base_url` and nowhere else."""

    def __init__(self, base_url: str, token: str, mode: str, times: PracticeTimes | None = None) -> None:
        if mode not in MODES:
            raise InvalidInput("mode", f"one of {', '.join(MODES)}")
        self.system, self.scope = system_of(mode), ""
        self._times = times or PracticeTimes()
        self._contracts = MODES[mode](self._times)
        self._path = f"/practice/{segment(mode)}/accounts"
        self._transport = Transport(base_url, token)
        self._reader = Reader(self.system, self._transport, self._times.read_within)

    def close(self) -> None:
        self._transport.close()

    def credential_mark(self) -> str:
        return self._transport.credential_mark()

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        """Those of the mode: see drill.practice_contracts."""
        _known(operation)
        return self._contracts

    def render(self, operation: str, key: str, fields: Fields) -> bytes:
        """Fields: name, country, email; optional legal_form, bank_holder, iban, run_id. Raises InvalidInput."""
        _known(operation)
        given = present(fields, "name", "country", "email")
        body = {"reference": fitting(key, self._contracts)}
        body |= {name: given[name] for name in (*NAMES, "iban") if name in given}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def send(self, request: Send) -> Answer:
        """One POST, with the key in a header where the mode heeds one."""
        keyed = any(isinstance(contract, Keyed) for contract in self._contracts)
        headers = {"Content-Type": "application/json"} | ({KEY_HEADER: request.key} if keyed else {})
        post = Request("POST", self._path, body=request.content, headers=headers)
        reply = self._transport.write(post, request.within)
        return classified(reply, request, self._contracts, datetime.now(UTC))

    def probe(self, sought: Sought) -> Finding:
        """The named account, else every account that the mode's look-up shows under our key."""
        try:
            return self._named(sought) or self._looked_up(sought)
        except ReadFailed as failure:
            return unseen(failure)

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        """The fields as `render` takes them, plus `operation_key`, and `iban_last4` for the IBAN. Raises ReadFailed."""
        _known(operation)
        account = self._read(reference)
        if account is None:
            raise self._reader.failed("absent")
        return {**readable(account), "operation_key": text(account, "reference")}

    def _named(self, sought: Sought) -> Finding | None:
        """Where the mode has no other look-up, the absence of the named one is all that can be said."""
        account = self._read(sought.reference) if sought.reference else None
        if account is not None:
            return _compared(account, sought)
        return Finding(Found.NONE, "absent") if sought.reference and not self._queries() else None

    def _read(self, reference: str) -> Object | None:
        account = self._reader.found(Request("GET", f"{self._path}/{segment(reference)}"))
        if account is not None and not is_account(account):
            raise self._reader.failed("unreadable_account")
        return account

    def _queries(self) -> Sequence[str]:
        asking = (Upsert, LookupStrong, LookupLagged)
        return [contract.query for contract in self._contracts if isinstance(contract, asking)]

    def _looked_up(self, sought: Sought) -> Finding:
        if not self._queries():
            raise self._reader.failed("no_look_up")
        ours = {str(one["id"]): one for one in self._accounts(sought) if text(one, "reference") == sought.key}
        if len(ours) > 1:
            return Finding(Found.MANY, "several_accounts")
        return _compared(ours.popitem()[1], sought) if ours else Finding(Found.NONE, "absent")

    def _accounts(self, sought: Sought) -> Iterator[Object]:
        """Raises ReadFailed if any page of the list cannot be read."""
        wanted = (self._filter(sought), ("limit", str(PAGE)))

        def request(after: str | None) -> Request:
            return Request("GET", self._path, (*wanted, *((("after", after),) if after else ())))

        return every_page(self._reader, request, lambda page: page_by_id(self._reader, page, is_account))

    def _filter(self, sought: Sought) -> tuple[str, str]:
        if BY_LIST in self._queries():
            return "created_from", str(int((sought.since - CLOCK_SKEW).timestamp()))
        return "reference", sought.key


def _compared(account: Object, sought: Sought) -> Finding:
    """ONE only with our key and our content."""
    reference = text(account, "id")
    if text(account, "reference") != sought.key:
        return Finding(Found.FOREIGN, "other_key", reference)
    differing = differences(sought.content, account)
    if differing:
        return Finding(Found.FOREIGN, f"other_{differing[0]}", reference)
    return Finding(Found.ONE, "found", reference)


def _known(operation: str) -> None:
    if operation != CREATE_ACCOUNT:
        raise InvalidInput("operation", CREATE_ACCOUNT)
