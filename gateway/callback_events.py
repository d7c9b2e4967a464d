"""Bodies of callbacks, element by element: what each says of a record, or why it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from domain.callbacks import CallsBack, Irrelevant, Told
from domain.canonical import Json, canonical_bytes
from domain.deliveries import Quarantined
from domain.errors import InvalidInput
from gateway.elements import element_digest, elements_of, fields_of, printable
from gateway.signatures import is_message_id

Element = Told | Irrelevant | Quarantined
KeyOf = Callable[[int, Mapping[str, Json]], str]


def parse_stripe_events(provider: CallsBack, body: bytes) -> list[Element]:
    """Events carry their id. Raises NotJson or TooManyElements."""
    return _read(_Reading(provider, lambda _, event: printable("id", event.get("id"))), body)


def parse_standard_callbacks(provider: CallsBack, webhook_id: str, body: bytes) -> list[Element]:
    """Standard Webhooks carry the id in a header, the same over all redeliveries; of a batch, with the position.

    Raises NotJson or TooManyElements, or InvalidInput for an unusable webhook-id.
    """
    if not is_message_id(webhook_id):
        raise InvalidInput("webhook-id", "1 to 255 printable ASCII characters without blanks")
    return _read(_Reading(provider, lambda index, _: f"{webhook_id}#{index}" if index else webhook_id), body)


def _read(reading: _Reading, body: bytes) -> list[Element]:
    return [reading.element(index, value) for index, value in enumerate(elements_of(body))]


@dataclass(frozen=True, slots=True)
class _Reading:
    provider: CallsBack
    key_of: KeyOf

    def element(self, index: int, value: Json) -> Element:
        """One that cannot be understood is put aside alone."""
        try:
            event = fields_of("event", value)
            return self._told(index, self.key_of(index, event), event)
        except InvalidInput as problem:
            return Quarantined(index, element_digest(value), problem.message)

    def _told(self, index: int, dedupe_key: str, event: Mapping[str, Json]) -> Element:
        said = self.provider.announced(event)
        if said is None:
            return Irrelevant(index, dedupe_key)
        key = None if said.key is None else printable("key", said.key)
        reference = printable("reference", said.reference)
        return Told(index, dedupe_key, said.kind, key, reference, canonical_bytes(said.record))
