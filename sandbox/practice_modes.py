"""The practice provider's modes: one for each thing that real APIs promise, or do not, about a repeated create."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True)
class Keys:
    """What the Idempotency-Key does. `window` in seconds; `practice_window` overrides it."""

    window: float
    failures: Literal["stored", "run_again"]
    compares_body: bool = True
    repeat: Literal["same_result", "conflict_names_id", "refused"] = "same_result"


@dataclass(frozen=True)
class Mode:
    """`unique`: what a taken reference does. `look_up`: how accounts are found without their id."""

    keys: Keys | None = None
    unique: Literal["no", "upsert", "conflict_with_id_in_text", "refused"] = "no"
    look_up: Literal["no", "list", "reference", "index"] = "no"
    calls_back: bool = False


MODES: Mapping[str, Mode] = {
    "keyed_store_all": Mode(Keys(DAY, "stored"), look_up="list"),
    "keyed_store_2xx": Mode(Keys(DAY, "run_again"), look_up="reference"),
    "keyed_rerun_failed": Mode(Keys(30 * DAY, "run_again"), look_up="list"),
    "keyed_ignore_body": Mode(Keys(30 * MINUTE, "stored", compares_body=False)),
    "keyed_conflict_names_id": Mode(Keys(DAY, "run_again", compares_body=False, repeat="conflict_names_id")),
    "keyed_conflict_400": Mode(Keys(DAY, "run_again", compares_body=False, repeat="refused"), look_up="reference"),
    "upsert_unique": Mode(unique="upsert", look_up="reference"),
    "create_once_409_text_id": Mode(unique="conflict_with_id_in_text", look_up="reference"),
    "create_once_400": Mode(unique="refused", look_up="reference"),
    "lookup_strong_after_H": Mode(look_up="reference"),
    "lookup_lagged": Mode(look_up="index"),
    "callback_only": Mode(calls_back=True),
    "none": Mode(),
}
