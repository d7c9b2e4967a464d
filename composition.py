"""The one place where settings become parts: store, connectors, activities, sweep and engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from business_store.credentials import StoredCredential
from business_store.database import STORE_AWAY, Store
from business_store.gauges import Gauges, look
from business_store.ledger import Ledger
from business_store.reviews import ReviewTerms
from business_store.settlements import Patience
from connectors.credentials import Renewable
from connectors.hubspot import HubSpot
from connectors.hubspot_contracts import HubSpotTimes
from connectors.hubspot_oauth import HubSpotTokens
from connectors.stripe import Stripe
from connectors.stripe_callbacks import StripeCallbacks
from connectors.stripe_contracts import StripeTimes
from domain.callbacks import CallsBack
from domain.contracts import Contract
from domain.credentials import Credential
from domain.permits import Timing
from domain.ports import Connector, Crm, Lists
from domain.process import Process
from domain.processes import PROCESSES
from operating.outside import Watched, WatchedCrm
from settings import Settings
from sweep.callbacks import CallbackSweep
from sweep.drift import Outside
from sweep.holds import Holds
from sweep.unrecorded import Unrecorded

if TYPE_CHECKING:
    from temporalio.client import Client

    from activities.steps import Steps
    from sweep.engine import Engine
    from sweep.loops import Loop
    from sweep.passes import Sweep


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def hubspot_times(settings: Settings) -> HubSpotTimes:
    """How long HubSpot's contracts wait."""
    return HubSpotTimes(
        _seconds(settings.settle_time),
        _seconds(settings.visibility_lag),
        _seconds(settings.outage_lag),
        read_within=_seconds(settings.read_timeout),
        write_within=_seconds(settings.send_timeout),
    )


def stripe_times(settings: Settings) -> StripeTimes:
    """How long Stripe's contracts wait."""
    return StripeTimes(
        _seconds(settings.resend_window),
        _seconds(settings.window_margin),
        _seconds(settings.settle_time),
        _seconds(settings.read_timeout),
    )


class Parts:
    """The parts of one process, each made when it is first needed.

    What needs the engine's SDK is imported with it: most commands need none, and would wait longer for it than work.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.processes: Mapping[str, Process[Any]] = PROCESSES

    @cached_property
    def store(self) -> Store:
        return Store(self.settings.database_url.get_secret_value(), self.settings.database_pool)

    @cached_property
    def hubspot(self) -> HubSpot:
        s = self.settings
        return HubSpot(
            s.hubspot_base_url,
            self._hubspot_credential(),
            portal_id=s.hubspot_portal_id,
            app_id=s.hubspot_app_id,
            times=hubspot_times(s),
        )

    def _hubspot_credential(self) -> Credential | str:
        """OAuth where it is set up, else the private app token."""
        s = self.settings
        if s.hubspot_oauth is None:
            return s.hubspot_token.get_secret_value() if s.hubspot_token else ""
        client_id, secret, refresh = s.hubspot_oauth
        vault = StoredCredential(self.store, "hubspot", s.hubspot_portal_id, refresh)
        tokens = HubSpotTokens(s.hubspot_base_url, client_id, secret, _seconds(s.read_timeout))
        return Renewable(vault, tokens, _seconds(s.read_timeout))

    @cached_property
    def stripe(self) -> Stripe:
        s = self.settings
        return Stripe(s.stripe_base_url, s.stripe_secret_key.get_secret_value(), stripe_times(s))

    @cached_property
    def crms(self) -> Mapping[str, Crm]:
        """Every CRM, watched."""
        return {"hubspot": WatchedCrm(self.hubspot)}

    @cached_property
    def connectors(self) -> Mapping[str, Connector]:
        """Every outside system that effects are made in, watched."""
        return {**self.crms, "stripe": Watched(self.stripe)}

    @property
    def calls_back(self) -> Mapping[str, CallsBack]:
        """Every outside system that calls back about effects."""
        return {"stripe": StripeCallbacks()}

    def contracts(self) -> dict[str, tuple[Contract, ...]]:
        """The recovery contracts of every declared effect, by `system.operation`."""
        effects = [effect for process in self.processes.values() for effect in process.effects]
        return {f"{e.system}.{e.operation}": self.connectors[e.system].contracts(e.operation) for e in effects}

    def terms(self, process: Process[Any]) -> ReviewTerms:
        """The process's own review terms, unless settings overrule them."""
        deadline, valid_for = self.settings.review_deadline, self.settings.decision_valid_for
        return ReviewTerms(
            process.review.deadline if deadline is None else _seconds(deadline),
            process.review.valid_for if valid_for is None else _seconds(valid_for),
        )

    def _patience(self, process: Process[Any]) -> Patience:
        s = self.settings
        return Patience(_seconds(s.retry_pause), _seconds(s.retry_pause), s.retry_limit, process.operator_role)

    def run_link(self, run_id: str) -> str:
        """Where a person sees this run."""
        return f"{self.settings.public_url.rstrip('/')}/runs/{run_id}"

    def steps(self) -> Steps:
        """The activities."""
        from activities.steps import Steps
        from activities.tools import Tools, Waits

        s = self.settings
        return Steps(
            Tools(
                ledger=Ledger(self.store, self.terms, self._patience),
                connectors=self.connectors,
                crms=self.crms,
                processes=self.processes,
                timing=Timing(_seconds(s.send_before), _seconds(s.send_timeout), _seconds(s.fresh_for)),
                waits=Waits(_seconds(s.recheck), _seconds(s.send_timeout)),
                run_link=self.run_link,
                store_away=STORE_AWAY,
            )
        )

    def engine(self, client: Client) -> Engine:
        """The engine as seen from the store."""
        from sweep.engine import Engine, EngineTerms

        s = self.settings
        send_seconds = s.read_timeout * 3 + s.send_before + 2 * s.send_timeout + s.step_margin
        read_seconds = s.read_timeout * 6 + s.step_margin
        return Engine(client, self.store, EngineTerms(s.task_queue, send_seconds, read_seconds, self.run_link))

    def sweep(self, client: Client) -> Sweep:
        """One sweep's worth of work."""
        from sweep.passes import Sweep

        patience, check_every = _seconds(self.settings.sweep_patience), _seconds(self.settings.engine_check)
        callbacks = CallbackSweep(self.store, self.calls_back, self.processes, patience)
        holds = Holds(self.store, self.connectors)
        outside = (self.crms, self.processes)
        return Sweep(self.store, self.engine(client), *outside, patience, callbacks, holds, check_every)

    def outside(self) -> Outside:
        """Store and world side by side."""
        lists: Mapping[str, Lists] = {"hubspot": self.hubspot, "stripe": self.stripe}
        unrecorded = Unrecorded(self.store, lists, self.processes)
        return Outside(self.store, self.connectors, self.crms, self.processes, unrecorded)

    def loops(self, client: Client) -> list[Loop]:
        """The loops of a worker process."""
        from sweep.loops import Loop
        from sweep.projections import Projector

        s = self.settings
        sweep, projector = self.sweep(client), Projector(self.store, self.crms, self.processes)
        lease = _seconds(s.sweep_lease)
        return [
            Loop("sweep", _seconds(s.sweep_interval), lease, self.store, sweep.once),
            Loop("projection", _seconds(s.projection_interval), lease, self.store, _threaded(projector.once)),
        ]

    def gauges(self) -> Gauges:
        """How the store stands. Raises sqlalchemy.exc.DBAPIError."""
        with self.store.reading() as connection:
            return look(connection, self.contracts())

    def close(self) -> None:
        """Give connections back, those that were opened."""
        for name in ("store", "hubspot", "stripe"):
            if name in self.__dict__:
                getattr(self, name).close()


def _threaded(work: Callable[[], object]) -> Callable[[], Any]:
    return lambda: asyncio.to_thread(work)
