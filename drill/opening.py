"""Opening a slot: its database, its environment, its gateway; and closing all of it again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from business_store.database import Store
from drill.ends import MODE
from drill.ground import Ground
from drill.programs import FOLDER
from drill.slot import APP, CALLBACK_SECRET, PORTAL, SECRET, STRIPE_KEY, TOKEN, Slot
from stack.ports import free_port
from stack.provision import APP_ROLE, OWNER_ROLE

FAST = {
    "SEND_BEFORE": "1",
    "SEND_TIMEOUT": "1",
    "READ_TIMEOUT": "1",
    "STEP_MARGIN": "1",
    "SETTLE_TIME": "0.2",
    "VISIBILITY_LAG": "0.2",
    "FRESH_FOR": "60",
    "RETRY_PAUSE": "0.3",
    "RETRY_LIMIT": "8",
    "RECHECK": "600",
    "SWEEP_INTERVAL": "0.7",
    "SWEEP_LEASE": "1.5",
    "SWEEP_PATIENCE": "0.7",
    "ENGINE_CHECK": "2",
    "PROJECTION_INTERVAL": "0.4",
    "DATABASE_POOL": "6",
    "ACTIVITY_THREADS": "4",
}
"""Minutes made into moments; the code that uses them is the same."""


def _environment(ground: Ground, name: str, mode: str, folder: Path) -> dict[str, str]:
    servers, port = ground.servers, free_port()
    url = f"http://127.0.0.1:{port}"
    own = {
        "DATABASE_URL": servers.passwords.url(APP_ROLE, servers.postgres.port, name),
        "GATEWAY_PORT": str(port),
        "PUBLIC_URL": url,
        "TASK_QUEUE": name,
        "HUBSPOT_BASE_URL": servers.sandbox,
        "HUBSPOT_TOKEN": TOKEN,
        "HUBSPOT_CLIENT_SECRET": SECRET,
        "HUBSPOT_PUBLIC_URL": f"{url}/triggers/hubspot",
        "HUBSPOT_PORTAL_ID": PORTAL,
        "HUBSPOT_APP_ID": APP,
        "STRIPE_BASE_URL": servers.sandbox,
        "STRIPE_SECRET_KEY": STRIPE_KEY,
        "STRIPE_WEBHOOK_SECRET": CALLBACK_SECRET,
        "STANDARD_WEBHOOKS_SECRET": "whsec_//Q+P3aqkLhjTUJ4HReuWteJ1fnHZJNrKNWYYgbLpUw=",
        **FAST,
    }
    drilled = {MODE: mode, FOLDER: str(folder), "TEMPORAL_ADDRESS": servers.temporal}
    foreign = ("COUNTERFOIL_", "TEMPORAL_", "DRILL_")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return {**clean, **drilled, **{f"COUNTERFOIL_{name}": text for name, text in own.items()}}


@contextmanager
def slot(ground: Ground, name: str, mode: str, settings: Mapping[str, str]) -> Iterator[Slot]:
    """A fresh slot of this name for the block; `settings` overrule its own."""
    folder = ground.servers.folder / name
    folder.mkdir()
    with _database(ground, name) as superuser:
        overruled = {f"COUNTERFOIL_{name}": text for name, text in settings.items()}
        environment = _environment(ground, name, mode, folder) | overruled
        store = Store(environment["COUNTERFOIL_DATABASE_URL"], 2)
        gateway = ground.nursery.start("gateway", environment, folder / "gateway.log")
        url = environment["COUNTERFOIL_PUBLIC_URL"]
        with (
            httpx.Client(base_url=url, timeout=20, trust_env=False) as http,
            psycopg.connect(superuser, row_factory=dict_row, autocommit=True) as seeing,
        ):
            made = Slot(ground, name, mode, folder, environment, seeing, store, http, gateway)
            try:
                yield made
            finally:
                for process in (*made.workers, made.gateway):
                    process.signal(signal.SIGCONT)
                    process.kill()
                store.close()


@contextmanager
def _database(ground: Ground, name: str) -> Iterator[str]:
    server = ground.servers.postgres
    _administer(server.dsn(), "CREATE DATABASE {} TEMPLATE {} OWNER {}", name, ground.servers.template, OWNER_ROLE)
    try:
        yield server.dsn(name)
    finally:
        _administer(server.dsn(), "DROP DATABASE {} WITH (FORCE)", name)


def _administer(dsn: str, statement: str, *names: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
