"""Erasing from the command line, and what is then read of a run."""

from __future__ import annotations

import pytest
from commands import Counterfoil
from keeping import age, still_there
from people import Who
from store_builder import Book


@pytest.fixture
def over(book: Book, supervisor: Who) -> str:
    """A run that ended long ago."""
    run_id = book.straight(supervisor.actor)
    age(book)
    return run_id


@pytest.mark.usefixtures("over")
def test_a_dry_run_tells_and_changes_nothing(book: Book, counterfoil: Counterfoil) -> None:
    before = still_there(book)
    said = counterfoil("erase", "--older-than", "365", "--dry-run", "--json").document
    assert (said["dry_run"], said["id"], said["requests"], said["contents"]) == (True, None, 1, before)
    told = counterfoil("erase", "--older-than", "365", "--dry-run").out
    assert told.startswith("would be erased: 1 requests and 1 receipts from before ")
    assert (still_there(book), book.count("erasure")) == (before, 0)


def test_it_erases_once_and_says_what(book: Book, counterfoil: Counterfoil, over: str) -> None:
    said = counterfoil("erase", "--older-than", "365", "--by", "renate", "--reason", "policy 7", "--json").document
    assert (said["dry_run"], said["id"], said["requests"], said["receipts"]) == (False, 1, 1, 1)
    assert [tuple(row) for row in book.rows("SELECT asked_by, reason FROM erasure")] == [("renate", "policy 7")]
    assert still_there(book) == {}
    assert counterfoil("audit").code == 0
    assert counterfoil("erase", "--older-than", "365").out.startswith("nothing to erase from before ")


def test_it_says_so_in_words(counterfoil: Counterfoil, over: str) -> None:
    lines = counterfoil("erase", "--older-than", "365").out.splitlines()
    assert lines[0].startswith("erased: 1 requests and 1 receipts from before ")
    assert lines[1].split() == ["TABLE", "CONTENTS"]
    assert lines[-1] == "recorded as erasure 1"


def test_an_erased_run_is_still_read(counterfoil: Counterfoil, supervisor: Who, over: str) -> None:
    before = counterfoil("events", over, "--json").document
    counterfoil("erase", "--older-than", "365")
    shown = counterfoil("show", over, "--json").document
    assert (shown["state"], shown["versions"][0]["erased"]) == ("succeeded", True)
    assert shown["decisions"][0]["by"] == "sonja"
    assert "inputs erased" in counterfoil("show", over).out
    assert counterfoil("events", over, "--json").document == before
    refused = counterfoil("show", over, "--inputs", "--json", token=supervisor.token)
    assert (refused.code, refused.refusal["error"]) == (1, "content_erased")
    assert refused.refusal["next_actions"]


def test_it_needs_the_address_of_its_own_role(counterfoil: Counterfoil) -> None:
    said = counterfoil.but(COUNTERFOIL_DATABASE_RETENTION_URL=None)("erase", "--older-than", "365", "--json")
    assert (said.code, said.refusal["error"]) == (2, "settings")
    assert said.refusal["settings"] == ["COUNTERFOIL_DATABASE_RETENTION_URL: Field required by `erase`"]


def test_it_needs_no_other_setting(counterfoil: Counterfoil) -> None:
    name = "COUNTERFOIL_DATABASE_RETENTION_URL"
    assert Counterfoil({name: counterfoil.environment[name]})("erase", "--older-than", "365", "--dry-run").code == 0


@pytest.mark.parametrize("url", ["nonsense", "postgresql+nothing://h/d"])
def test_an_address_that_is_none_is_named(url: str, counterfoil: Counterfoil) -> None:
    said = counterfoil.but(COUNTERFOIL_DATABASE_RETENTION_URL=url)("erase", "--older-than", "365", "--json")
    assert (said.code, said.refusal["settings"][0].partition(":")[0]) == (2, "COUNTERFOIL_DATABASE_RETENTION_URL")


@pytest.mark.usefixtures("over")
def test_the_application_and_the_owner_cannot_be_used_for_it(book: Book, counterfoil: Counterfoil) -> None:
    for url in (book.database.url, book.database.owner_url):
        said = counterfoil.but(COUNTERFOIL_DATABASE_RETENTION_URL=url)("erase", "--older-than", "365", "--json")
        assert said.code == 1
        assert said.refusal["error"] in ("store_not_permitted", "store_refused")
    assert still_there(book)["input_version"] == 1


@pytest.mark.parametrize("days", ["0", "-1", "x", "0.5"])
def test_days_are_whole_and_at_least_one(days: str, counterfoil: Counterfoil) -> None:
    assert counterfoil("erase", "--older-than", days).code == 2
