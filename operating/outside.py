"""Connectors as seen from outside: every request to a CRM or provider is one span, one count and one log line."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from domain.contracts import Contract
from domain.errors import ReadFailed
from domain.identity import SubjectRef
from domain.ports import Connector, Crm, Send, Sought, SubjectReading, Wanted
from domain.signals import Answer, Finding
from operating.joining import joined
from operating.metrics import PROBES, READS_FAILED, SEND_SECONDS, SENDS
from operating.traces import span

log = logging.getLogger(__name__)


class Watched:
    """A connector that tells what it does: names, ids and codes, never bytes."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.system = connector.system
        self.scope = connector.scope

    def credential_mark(self) -> str:
        return self._connector.credential_mark()

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        return self._connector.contracts(operation)

    def render(self, operation: str, key: str, fields: Mapping[str, str | None]) -> bytes:
        return self._connector.render(operation, key, fields)

    def send(self, request: Send) -> Answer:
        name, began = f"{self.system}.{request.operation}", time.monotonic()
        with joined(operation=request.key), span(f"send {name}", "client", **self._named(request.operation)) as shown:
            answer = self._connector.send(request)
            SENDS.labels(self.system, request.operation, answer.signal).inc()
            SEND_SECONDS.labels(self.system, request.operation).observe(time.monotonic() - began)
            if shown is not None:
                shown.set_attributes({"counterfoil.signal": answer.signal, "counterfoil.code": answer.code})
            log.info("sent %s: %s (%s)", name, answer.signal, answer.code)
        return answer

    def probe(self, sought: Sought) -> Finding:
        name = f"{self.system}.{sought.operation}"
        with joined(operation=sought.key), span(f"probe {name}", "client", **self._named(sought.operation)) as shown:
            finding = self._connector.probe(sought)
            PROBES.labels(self.system, sought.operation, finding.found).inc()
            if shown is not None:
                shown.set_attributes({"counterfoil.found": finding.found, "counterfoil.code": finding.code})
            log.info("looked for %s: %s (%s)", name, finding.found, finding.code)
        return finding

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        with self._reading(f"read back {self.system}.{operation}"):
            return self._connector.read_back(operation, reference)

    def _named(self, operation: str) -> dict[str, str]:
        return {"counterfoil.system": self.system, "counterfoil.effect": operation}

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        with span(name, "client", **{"counterfoil.system": self.system}):
            try:
                yield
            except ReadFailed as refused:
                READS_FAILED.labels(self.system, refused.code).inc()
                raise


class WatchedCrm(Watched):
    """The same for a system that holds subjects."""

    def __init__(self, crm: Crm) -> None:
        super().__init__(crm)
        self._crm = crm

    def read_subject(self, subject: SubjectRef, wanted: Wanted) -> SubjectReading:
        with self._reading(f"read {self.system} subject"):
            return self._crm.read_subject(subject, wanted)

    def project(self, subject: SubjectRef, properties: Mapping[str, str | None]) -> None:
        with self._reading(f"project into {self.system}"):
            self._crm.project(subject, properties)

    def check(self) -> Sequence[str]:
        return self._crm.check()
