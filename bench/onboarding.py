"""`onboarding_vs_bare`: full onboardings with instant approval against the bare workflow, interleaved."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, text
from temporalio.client import Client

from bench.bare import QUEUE, BareOnboarding
from bench.ground import PORTAL, Ground, program
from business_store.actors import Actor, actor, add_actor, grant
from business_store.database import Store
from business_store.decisions import DecisionAsked, decide
from business_store.intake import accept
from business_store.sweeping import EngineRow, engine_row
from composition import Parts
from domain.approvals import Outcome
from domain.deliveries import Change, Delivery, Receipt, ReceiptVerdict
from domain.errors import NotFound
from domain.identity import SubjectRef
from domain.partner_onboarding import ONBOARDING
from settings import load_settings
from sweep.engine import Engine
from workflows.plugin import counterfoil_plugin

COMPANY = {
    "name": "Bench Partner GmbH",
    "country": "DE",
    "partner_email": "bench@partner.example",
    "legal_form": "GmbH",
    "bank_holder": "Bench Partner GmbH",
    "iban": "DE89370400440532013000",
}
NEWEST = text("SELECT id FROM run WHERE state = 'succeeded' ORDER BY created_at DESC LIMIT 1")
WRITTEN = text("""
    SELECT count(DISTINCT xmin::text) FROM (
        SELECT xmin FROM run WHERE id = :run UNION ALL SELECT xmin FROM event WHERE run_id = :run
        UNION ALL SELECT xmin FROM decision WHERE run_id = :run UNION ALL SELECT xmin FROM attempt WHERE run_id = :run
        UNION ALL SELECT a.xmin FROM answer a JOIN operation o ON o.key = a.operation_key WHERE o.run_id = :run
        UNION ALL SELECT p.xmin FROM probe p JOIN operation o ON o.key = p.operation_key WHERE o.run_id = :run) AS rows
""")
OPEN = text("SELECT run_id, version, fingerprint FROM review WHERE status = 'open'")


@dataclass
class Onboardings:
    """Drives both kinds of run over the same ground."""

    ground: Ground
    parts: Parts
    client: Client
    engine: Engine
    approver: Actor

    @property
    def store(self) -> Store:
        return self.parts.store

    async def ours(self, companies: Sequence[str]) -> float:
        """Seconds for all of these companies to be onboarded."""
        started = time.monotonic()
        done = asyncio.Event()
        approving = asyncio.create_task(self._approve(done))
        await asyncio.gather(*(self._carried(company) for company in companies))
        seconds = time.monotonic() - started
        done.set()
        await approving
        return seconds

    def accept(self, company: str) -> str:
        element = Delivery(
            0,
            f"bench-{company}",
            Change.PROPERTY,
            SubjectRef("hubspot", PORTAL, "0-2", company),
            datetime.now(UTC),
            "onboarding_stage",
            "submitted",
            by="hubspot:61000001",
        )
        receipt = Receipt("hubspot", f"bench {company}".encode(), ReceiptVerdict.GENUINE)
        accepted = self.store.write(lambda connection: accept(connection, receipt, [element], [ONBOARDING]))
        assert accepted[0].run_id
        return accepted[0].run_id

    async def _carried(self, company: str) -> None:
        run_id = await asyncio.to_thread(self.accept, company)
        row = await asyncio.to_thread(self.row, run_id)
        await self.engine.start(row)
        await self.client.get_workflow_handle(self.engine.startable(row).workflow_id).result()

    def row(self, run_id: str) -> EngineRow:
        """How the engine knows this run."""
        with self.store.reading() as connection:
            return engine_row(connection, run_id)

    async def _approve(self, done: asyncio.Event) -> None:
        while not done.is_set():
            for run_id, version, fingerprint in await asyncio.to_thread(self.open):
                asked = DecisionAsked(run_id, Outcome.APPROVED, version, fingerprint)
                await asyncio.to_thread(decide, self.store, self.approver, asked, timedelta(days=1))
                await self.engine.nudge(await asyncio.to_thread(self.row, run_id))
            await asyncio.sleep(0.05)

    def open(self) -> list[tuple[str, int, str]]:
        with self.store.reading() as connection:
            return [tuple(row) for row in connection.execute(OPEN)]

    def newest(self) -> str:
        """The newest run that succeeded."""
        with self.store.reading() as connection:
            return str(connection.execute(NEWEST).scalar_one())

    def probes(self) -> int:
        """Look-ups that were recorded."""
        with self.store.reading() as connection:
            return int(connection.execute(text("SELECT count(*) FROM probe")).scalar_one())

    async def bare(self, companies: Sequence[str]) -> float:
        """Seconds for the bare workflow to do the same."""
        started = time.monotonic()
        await asyncio.gather(*(self._bare(company) for company in companies))
        return time.monotonic() - started

    async def _bare(self, company: str) -> None:
        handle = await self.client.start_workflow(BareOnboarding.run, company, id=f"bare-{company}", task_queue=QUEUE)
        await handle.signal(BareOnboarding.approve)
        await handle.result()


async def prepared(ground: Ground) -> Onboardings:
    parts = Parts(load_settings(ground.environment))
    client = await Client.connect(ground.temporal, plugins=[counterfoil_plugin()])
    approver = parts.store.write(_approver)
    return Onboardings(ground, parts, client, parts.engine(client), approver)


def _approver(connection: Connection) -> Actor:
    """The same for everybody who measures on this ground."""
    try:
        return actor(connection, "bench")
    except NotFound:
        add_actor(connection, "bench", "person", "Bench")
        return grant(connection, "bench", "supervisor")


@dataclass(frozen=True, slots=True)
class Measured:
    """(ours, bare) in runs/s for every round, and what one straight run of ours costs."""

    rates: list[tuple[float, float]]
    events: float
    transactions: float


async def measure(ground: Ground, rounds: int, size: int) -> Measured:
    """Both kinds in turn, each over as many companies as the other; the first round warms up and is not counted."""
    both = await prepared(ground)
    with (
        program(["worker.py"], ground.environment, ground.folder / "worker.log"),
        program(["bench.bare"], ground.environment, ground.folder / "bare.log"),
    ):
        rates = []
        for number in range(rounds + 1):
            companies = [ground.sandbox.seed(COMPANY, actor="userId:61000001").company_id for _ in range(2 * size)]
            ours, bare = await both.ours(companies[:size]), await both.bare(companies[size:])
            print(f"bench: round {number} of {rounds}", file=sys.stderr, flush=True)
            if number:
                rates.append((size / ours, size / bare))
        return Measured(rates, await events(both), await transactions(both))


async def events(both: Onboardings) -> float:
    """Events in the history of a run of ours."""
    row = await asyncio.to_thread(lambda: both.row(both.newest()))
    described = await both.client.get_workflow_handle(both.engine.startable(row).workflow_id).describe()
    return described.history_length


async def transactions(both: Onboardings) -> float:
    """Committed transactions of the store that wrote a run of ours, by the transaction ids on its rows."""
    run_id = await asyncio.to_thread(both.newest)
    with both.store.reading() as connection:
        return float(connection.execute(WRITTEN, {"run": run_id}).scalar_one())
