"""The process of docs/adding-a-process.md, from its CRM event to agreement, beside partner onboarding."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import fresh_database
from eventually import eventually
from sandboxes import sandbox_process
from sqlalchemy import create_engine
from store_builder import Book, changed
from supplier_notice import NOTICE
from supplier_notice_workflow import SupplierNotice
from temporalio import workflow
from world import World, world

from business_store.intake import accept
from business_store.policies import record_policies
from domain.deliveries import Receipt, ReceiptVerdict
from domain.processes import PROCESSES
from stack.postgres import EmbeddedPostgres
from workflows.registry import WORKFLOWS

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def installed(
    migrated: EmbeddedPostgres,
    temporal_server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """A world whose programs know the tutorial's process too."""
    folder = tmp_path_factory.mktemp("installed")
    with fresh_database(migrated) as database, sandbox_process(folder / "sandbox.db") as sandbox:
        owner = create_engine(database.owner_url)
        with owner.begin() as connection:
            record_policies(connection, [NOTICE])
        owner.dispose()
        with world(database, temporal_server, sandbox, folder) as running:
            for program in (running.gateway, running.worker):
                paths = os.pathsep.join([str(FOLDER.parents[1]), str(FOLDER)])
                program.environment = {**program.environment, "PYTHONPATH": paths}
                program.argv = [sys.executable, str(FOLDER / "installed.py"), program.name]
                program.restart()
            running.sandbox.add_property("companies", "supplier_stage")
            eventually(lambda: running.http.get("/health/ready").is_success, within=20)
            yield running


def projected(world: World, company: str, state: str) -> dict[str, Any] | None:
    properties: dict[str, Any] = world.company(company)["properties"]
    return properties if properties.get("counterfoil_state") == state else None


def test_the_process_runs_from_crm_event_to_agreement(installed: World) -> None:
    company = installed.seed(name="Fjord Timber AS", country="NO").company_id
    installed.set_company(company, supplier_stage="approved", counterfoil_account="acct_ofAnother")
    run_id = eventually(lambda: installed.run_of(company), within=15)
    installed.approve(run_id)
    shown = installed.wait_state(run_id, "succeeded")
    assert (shown["process"], shown["reason"]) == ("supplier-notice", "records_agree")
    (task,) = installed.tasks(run_id)
    assert task["properties"]["hs_task_subject"] == "Tell purchasing about Fjord Timber AS"
    assert installed.accounts(run_id) == []
    shown_there = eventually(lambda: projected(installed, company, "succeeded"))
    assert (shown_there["counterfoil_run"], shown_there["counterfoil_account"]) == (run_id, "acct_ofAnother")
    installed.keeps_its_word()


def test_an_amendment_needs_a_new_approval_as_in_every_process(installed: World) -> None:
    company = installed.seed(name="Fjord Salmon AS", country="NO").company_id
    installed.set_company(company, supplier_stage="approved")
    run_id = eventually(lambda: installed.run_of(company), within=15)
    installed.wait_version(run_id, 1)
    installed.set_company(company, country="SE")
    installed.wait_version(run_id, 2)
    assert installed.decide(run_id, version=1).status_code == 409
    assert installed.tasks(run_id) == []


@pytest.mark.parametrize("registered", [*PROCESSES, NOTICE.name])
def test_every_process_has_a_workflow_of_its_name(registered: str) -> None:
    workflows = {**WORKFLOWS, NOTICE.name: SupplierNotice}
    declared = workflow._Definition.must_from_class(workflows[registered])
    assert declared.name == registered


def test_a_change_of_one_record_is_read_for_every_request_about_it(book: Book) -> None:
    """Both processes on one company: neither run may miss an amendment that was delivered once."""
    processes = [*PROCESSES.values(), NOTICE]
    book.store.write(lambda connection: record_policies(connection, [NOTICE]))

    def deliver(**changes: str) -> None:
        receipt = Receipt("hubspot", str(changes).encode(), ReceiptVerdict.GENUINE)
        element = changed(**{"dedupe_key": str(changes), **changes})
        book.store.write(lambda connection: accept(connection, receipt, [element], processes))

    deliver()
    deliver(property_name="supplier_stage", property_value="approved")
    runs = [row.id for row in book.rows("SELECT id FROM run ORDER BY process")]
    unread = [book.facts(run_id).unread for run_id in runs]
    deliver(property_name="country", property_value="SE")
    deliver(property_name="country", property_value="SE")
    assert len(runs) == 2
    assert all(book.facts(run_id).unread > before for run_id, before in zip(runs, unread, strict=True))
    assert book.count("delivery") == 4
