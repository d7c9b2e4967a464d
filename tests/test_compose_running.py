"""Every service of ours in docker-compose.yml, run by hand as it says there on embedded servers."""

import re
import secrets
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from compose import DEMO, ROOT, ByHand, load, make_secrets
from eventually import ANSWER_SECONDS, eventually
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client

from business_store.schema import head
from sandbox.control import SandboxControl
from stack.child import Files
from stack.ports import free_port
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.temporal import SEARCH_ATTRIBUTES

DEPLOYING = ROOT / "docs" / "deploying.md"
WHAT_THE_APPLICATION_MAY = """
    SELECT array_agg((table_name, privilege_type)::text ORDER BY table_name, privilege_type)::text
    FROM information_schema.role_table_grants WHERE grantee = 'counterfoil_app'
"""
DATABASE_URLS = [f"counterfoil_database_{name}" for name in ("url", "owner_url", "retention_url")]
NAMESPACE = f"compose-{secrets.token_hex(4)}"
PARTNER = {
    "name": "Nordwind Handels GmbH",
    "country": "DE",
    "partner_email": "konto@nordwind.example",
    "legal_form": "GmbH",
    "bank_holder": "Nordwind Handels GmbH",
    "iban": "DE89370400440532013000",
}
CONTACT = {"email": "petra.kraft@nordwind.example", "firstname": "Petra"}
OWNER: dict[str, object] = {"email": "owner@example.test", "firstName": "Olaf", "lastName": "Owner"}


@dataclass
class Ground:
    """What the services of ours stand on: an empty PostgreSQL, Temporal, the secrets."""

    store: EmbeddedPostgres
    hand: ByHand
    folder: Path

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text()

    def secrets_in_logs(self) -> list[str]:
        written = "".join(log.read_text() for log in self.folder.glob("*.log"))
        assert "worker ready" in written
        return [file.name for file in (self.folder / "secrets").iterdir() if file.read_text() in written]

    def value(self, statement: str, database: str = "postgres") -> object:
        """As superuser, the first column of the first row."""
        with psycopg.connect(self.store.dsn(database)) as connection:
            found = connection.execute(statement.encode()).fetchone()
            assert found is not None
            return found[0]

    def enter(self, role: str, password: str, database: str = "counterfoil") -> None:
        """Raises psycopg.OperationalError when this account may not connect."""
        server = {"host": "127.0.0.1", "port": self.store.port}
        psycopg.connect(user=role, password=password, dbname=database, **server).close()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ground(temporal_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("compose")
    make_secrets(folder / "secrets", "demo")
    password = (folder / "secrets" / "store_db_password").read_text()
    settings = PostgresSettings(password, durable=False)
    store = EmbeddedPostgres(folder / "data", free_port(), settings, Files.of(folder, "postgres"))
    for name in DATABASE_URLS:
        _name_loopback(folder / "secrets" / name, store.port)
    store.start()
    try:
        yield Ground(store, _by_hand(store.port, temporal_server, folder), folder)
    finally:
        store.stop()


def _name_loopback(file: Path, port: int) -> None:
    file.chmod(0o600)
    file.write_text(file.read_text().replace("store-db:5432", f"127.0.0.1:{port}"))


def _by_hand(store: int, temporal: str, folder: Path) -> ByHand:
    sandbox, gateway = free_port(), free_port()
    places = {
        "/run/secrets": str(folder / "secrets"),
        "/deploy/": f"{ROOT}/deploy/",
        "/data/": f"{folder}/",
        "temporal:7233": temporal,
        "gateway:8080": f"127.0.0.1:{gateway}",
        "store-db": "127.0.0.1",
        "sandbox:": "127.0.0.1:",
        "0.0.0.0": "127.0.0.1",
        "5432": str(store),
        "8600": str(sandbox),
    }
    services = load({**DEMO, "TEMPORAL_NAMESPACE": NAMESPACE})["services"]
    return ByHand(services, places, folder, {("gateway", "8080"): str(gateway)})


def succeeded(done: subprocess.CompletedProcess[str]) -> bool:
    assert done.returncode == 0, done.stdout + done.stderr
    return True


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def roles(ground: Ground) -> Ground:
    succeeded(ground.hand.job("store-roles"))
    return ground


@pytest.fixture(scope="module")
def migrated(roles: Ground) -> Ground:
    succeeded(roles.hand.job("migrate"))
    return roles


@pytest.fixture(scope="module")
def namespace(ground: Ground) -> Ground:
    succeeded(ground.hand.job("temporal-namespace"))
    return ground


def test_database_healthchecks_tell_up_from_down(ground: Ground) -> None:
    assert succeeded(ground.hand.check("store-db"))
    assert succeeded(ground.hand.check("temporal-db"))
    absent = ByHand(ground.hand.services, {**ground.hand.places, "5432": str(free_port())}, ground.folder)
    assert absent.check("store-db").returncode != 0


def test_roles_are_no_superusers_and_only_the_owner_owns(roles: Ground) -> None:
    powerful = "rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls"
    assert roles.value(f"SELECT count(*) FROM pg_roles WHERE rolname LIKE 'counterfoil%' AND ({powerful})") == 0
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'counterfoil'"
    assert roles.value(owner) == "counterfoil_owner"


def test_roles_enter_by_their_secrets(roles: Ground) -> None:
    roles.enter("counterfoil_app", roles.secret("store_app_password"))
    roles.enter("counterfoil_owner", roles.secret("store_owner_password"))
    roles.enter("counterfoil_retention", roles.secret("store_retention_password"))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        roles.enter("counterfoil_app", roles.secret("store_owner_password"))


def test_roles_job_rotates_a_password(roles: Ground) -> None:
    file = roles.folder / "secrets" / "store_app_password"
    before = file.read_text()
    file.chmod(0o600)
    try:
        file.write_text("another-long-password")
        succeeded(roles.hand.job("store-roles"))
        roles.enter("counterfoil_app", "another-long-password")
    finally:
        file.write_text(before)
        succeeded(roles.hand.job("store-roles"))
    roles.enter("counterfoil_app", before)


def test_roles_job_refuses_an_empty_password(roles: Ground) -> None:
    file = roles.folder / "secrets" / "store_app_password"
    before = file.read_text()
    file.chmod(0o600)
    try:
        file.write_text("")
        refused = roles.hand.job("store-roles")
    finally:
        file.write_text(before)
    assert refused.returncode != 0
    assert "store_app_password" in refused.stderr
    roles.enter("counterfoil_app", before)


def test_migration_brings_the_store_to_the_newest_schema_and_may_run_again(migrated: Ground) -> None:
    succeeded(migrated.hand.job("migrate"))
    assert migrated.value("SELECT version_num FROM alembic_version", "counterfoil") == head()


def test_what_is_over_is_erased_by_a_service_of_its_own(migrated: Ground) -> None:
    *command, shown_by_default = migrated.hand.argv("erase")
    assert shown_by_default == "--help"
    done = migrated.hand.inside("erase", *command, "--older-than", "400")
    assert succeeded(done)
    assert done.stdout.startswith("nothing to erase from before ")


def test_the_documented_backup_can_be_restored(migrated: Ground) -> None:
    dump, restore = re.findall(r"exec -T store-db (.+) [<>] counterfoil.dump", DEPLOYING.read_text())
    kept, environment = migrated.folder / "counterfoil.dump", migrated.hand.environment("store-roles")
    environment["PGPASSWORD"] = migrated.secret("store_db_password")
    with kept.open("wb") as file:
        subprocess.run(shlex.split(dump), env=environment, stdout=file, check=True)
    before = migrated.value(WHAT_THE_APPLICATION_MAY, "counterfoil")
    with kept.open("rb") as file:
        subprocess.run(shlex.split(restore), env=environment, stdin=file, check=True)
    assert migrated.value("SELECT version_num FROM alembic_version", "counterfoil") == head()
    assert migrated.value(WHAT_THE_APPLICATION_MAY, "counterfoil") == before


def test_namespace_has_our_search_attributes_and_the_job_may_run_again(
    namespace: Ground, temporal_client: Client, run: Callable[..., Any]
) -> None:
    succeeded(namespace.hand.job("temporal-namespace"))
    request = ListSearchAttributesRequest(namespace=NAMESPACE)
    listed = run(temporal_client.operator_service.list_search_attributes(request))
    assert set(SEARCH_ATTRIBUTES) <= set(listed.custom_attributes)


@pytest.fixture
def run(runner: Any) -> Callable[..., Any]:  # noqa: ANN401 (the session's event loop)
    return runner.run  # type: ignore[no-any-return]


# ── services ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Running:
    """The services that stay, started from their descriptions."""

    ground: Ground
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def url(self, service: str) -> str:
        ports = {"gateway": self.ground.hand.port("gateway", "8080"), "sandbox": self.ground.hand.places["8600"]}
        return f"http://127.0.0.1:{ports[service]}"

    def metrics(self, service: str, port: str) -> str:
        url = f"http://127.0.0.1:{self.ground.hand.port(service, port)}/metrics"
        return httpx.get(url, trust_env=False, timeout=ANSWER_SECONDS).raise_for_status().text

    def healthy(self, service: str) -> bool:
        return self.ground.hand.check(service).returncode == 0

    def submit(self, crm: SandboxControl) -> None:
        """A company becomes `submitted` in the CRM; its webhook follows by itself."""
        token = self.ground.secret("counterfoil_hubspot_token")
        company = crm.seed(PARTNER, contact=CONTACT, owner=OWNER, actor="userId:61000001").company_id
        answer = httpx.patch(
            f"{self.url('sandbox')}/crm/v3/objects/companies/{company}",
            json={"properties": {"onboarding_stage": "submitted"}},
            headers={"Authorization": f"Bearer {token}", "X-Sandbox-Actor": "userId:61000001"},
            trust_env=False,
            timeout=ANSWER_SECONDS,
        )
        answer.raise_for_status()

    def states(self) -> list[str]:
        runs = (
            httpx.get(f"{self.url('gateway')}/runs", trust_env=False, timeout=ANSWER_SECONDS).raise_for_status().json()
        )
        return [found["state"] for found in runs]

    def stopped(self, service: str) -> int:
        """The exit code after SIGTERM."""
        self.processes[service].send_signal(signal.SIGTERM)
        return self.processes[service].wait(60)


@pytest.fixture
def running(migrated: Ground, namespace: Ground) -> Iterator[Running]:
    with ExitStack() as stack:
        made = Running(migrated)
        for service in ("sandbox", "gateway", "worker"):
            made.processes[service] = stack.enter_context(migrated.hand.running(service))
        yield made


def test_a_trigger_becomes_a_run_that_waits_for_review(running: Running) -> None:
    for service in ("sandbox", "gateway", "worker"):
        eventually(lambda: running.healthy(service), within=40)  # noqa: B023 (called at once)
    with SandboxControl(running.url("sandbox")) as crm:
        running.submit(crm)
    eventually(lambda: running.states() == ["awaiting_review"], within=40)
    assert "counterfoil_" in running.metrics("gateway", "9464")
    assert "counterfoil_" in running.metrics("worker", "9465")
    assert "temporal_" in running.metrics("worker", "9466")
    assert succeeded(running.ground.hand.inside("gateway", "counterfoil", "audit"))
    assert {service: running.stopped(service) for service in ("worker", "gateway", "sandbox")} == {
        "worker": 0,
        "gateway": 0,
        "sandbox": 0,
    }
    assert not any(running.healthy(service) for service in running.processes)
    assert running.ground.secrets_in_logs() == []
