"""Names that a page rests on exist: constraints, triggers, columns, functions, settings, SQL that runs."""

import re
from functools import cache
from pathlib import Path

import psycopg
import pytest
from databases import Database

from business_store.audit.immutability import ERASABLE
from settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
TICKED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z_]{3,}")
SQL = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"COUNTERFOIL_[A-Z][A-Z_]*[A-Z]")
OURS = ("activities", "business_store", "connectors", "domain", "gateway", "sweep", "workflows", "deploy", "cli")
OTHER_SETTINGS = {"COUNTERFOIL_TOKEN", "COUNTERFOIL_DATA", "COUNTERFOIL_SECRETS", "COUNTERFOIL_SECRETS_DIR"}


@cache
def source() -> frozenset[str]:
    """Every word of our code and migrations."""
    paths = [path for package in OURS for path in (ROOT / package).rglob("*") if path.suffix in (".py", ".sql")]
    paths += [ROOT / "settings.py", ROOT / "composition.py"]
    words = frozenset(word for path in paths for word in NAME.findall(path.read_text()))
    return words | {f"COUNTERFOIL_{name.upper()}" for name in Settings.model_fields}


def rested_on() -> list[str]:
    """Names in the second column of "What each promise rests on"."""
    text = (ROOT / "docs" / "failure-model.md").read_text().split("## What each promise rests on")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    names = [
        name for row in rows for ticked in TICKED.findall(row) if "/" not in ticked for name in NAME.findall(ticked)
    ]
    return sorted(set(names) - {"SELECT", "FOR", "UPDATE"})


@pytest.mark.parametrize("name", rested_on())
def test_what_a_promise_rests_on_exists(name: str) -> None:
    assert name in source()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_settings_named_in_a_page_exist(page: Path) -> None:
    known = {f"COUNTERFOIL_{name.upper()}" for name in Settings.model_fields} | OTHER_SETTINGS
    assert set(SETTING.findall(page.read_text())) - known == set()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_files_named_in_a_page_exist(page: Path) -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|sql|sh|md))`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_queries_of_the_runbook_run_as_the_application(database: Database) -> None:
    blocks = SQL.findall((ROOT / "docs" / "runbook.md").read_text())
    statements = [statement for block in blocks for statement in block.split(";") if statement.strip()]
    with psycopg.connect(database.url.replace("+psycopg", "")) as connection:
        columns = [connection.execute(statement.encode()).description for statement in statements]
    assert len(columns) == 4


NOBODYS = {"policy_version.document", "credential.refresh_token", "credential.access_token"}
"""Binary columns about no person: a declaration, and secrets of ours."""


def test_personal_data_is_where_security_says_and_nowhere_else(database: Database) -> None:
    """Every binary column but hashes holds payload: a new one has to be erasable, and named in docs/security.md."""
    with psycopg.connect(database.superuser_dsn) as connection:
        rows = connection.execute(
            "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND data_type = 'bytea' AND column_name !~ '(sha256|hash)$'"
        ).fetchall()
    told = (ROOT / "docs" / "security.md").read_text().split("## Personal data")[1].split("\n## ")[0]
    listed = {name for name in TICKED.findall(told.split("It is **never**")[0]) if "." in name and name != "actor.name"}
    erasable = {f"{payload.table}.{payload.column}" for payload in ERASABLE}
    assert {name for (name,) in rows if name not in NOBODYS} <= listed == erasable
