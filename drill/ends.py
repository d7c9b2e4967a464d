"""The contracts that are drilled, and as data where a run may stand under each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from connectors.stripe_callbacks import StripeCallbacks
from domain.callbacks import CallsBack
from domain.ports import Connector
from drill.practice import Practice
from drill.practice_callbacks import PracticeCallbacks
from drill.practice_contracts import PracticeTimes
from settings import Settings

MODE = "DRILL_MODE"
"""Names the contract of a drilled process's provider."""
STRIPE = "stripe"
PRACTICE_TOKEN = "practice-sandbox-token"


SYSTEM = "stripe"
"""The provider of our effects: a practice contract takes the place of the real one."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a run may stand: the numbers are how many records and tasks of it may exist then."""

    state: str
    reason: str
    accounts: frozenset[int] = frozenset({1})
    tasks: frozenset[int] = frozenset({1})


SUCCEEDED = End("succeeded", "records_agree")
"""Where every run ends, by itself or once a person has said what happened, unless its journey is to another end."""


def _asked(reason: str) -> End:
    """An operator is asked before anything else is made; the provider may have executed the one send or not."""
    return End("needs_operator", reason, frozenset({0, 1}), frozenset({0}))


@dataclass(frozen=True, slots=True)
class Mode:
    """One contract. `accounts`: where they are made; `asks`: how a person is asked where a send stays in doubt."""

    name: str
    accounts: str
    asks: tuple[End, ...] = ()
    calls_back: bool = False


def _practice(name: str, *asked: str, calls_back: bool = False) -> Mode:
    return Mode(name, f"/practice/{name}/accounts", tuple(map(_asked, asked)), calls_back)


_LISTED = (
    Mode(STRIPE, "/v1/accounts", calls_back=True),
    _practice("keyed_store_all"),
    _practice("keyed_store_2xx"),
    _practice("keyed_rerun_failed"),
    _practice("keyed_ignore_body", "contracts_exhausted"),
    _practice("keyed_conflict_names_id"),
    _practice("keyed_conflict_400"),
    _practice("upsert_unique"),
    _practice("create_once_409_text_id"),
    _practice("create_once_400"),
    _practice("lookup_strong_after_H"),
    _practice("lookup_lagged", "contracts_exhausted"),
    _practice("callback_only", "contracts_exhausted", calls_back=True),
    _practice("none", "no_recovery"),
)
MODES: Mapping[str, Mode] = {mode.name: mode for mode in _LISTED}


def connector_of(mode: str, settings: Settings) -> Connector | None:
    """The provider's connector under this contract; None where it is the real one's."""
    if mode == STRIPE:
        return None
    lag = timedelta(seconds=settings.visibility_lag)
    times = PracticeTimes(
        settle=timedelta(seconds=settings.settle_time),
        lag=lag,
        outage_lag=lag * 2,
        callback_within=lag * 20,
        read_within=timedelta(seconds=settings.read_timeout),
    )
    made = Practice(settings.stripe_base_url, PRACTICE_TOKEN, mode, times)
    made.system = SYSTEM
    return made


def calls_back_of(mode: str) -> CallsBack:
    """How the provider's callbacks are read under this contract."""
    return StripeCallbacks() if mode == STRIPE else PracticeCallbacks(SYSTEM)
