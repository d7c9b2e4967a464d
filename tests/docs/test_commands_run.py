"""Commands of the pages, carried out on the shared world: what only reads, and the first steps of the README."""

import re
import shlex
from pathlib import Path

import pytest
from commands import Counterfoil, Said
from eventually import eventually
from world import PORTAL, World

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
READS = {"runs", "show", "events", "audit", "doctor", "sweep"}
"""Commands that change nothing of a run; a sweep repeats hints."""


def said_in(text: str) -> list[list[str]]:
    """The arguments of every `counterfoil` command in the shell blocks of this text."""
    lines = [shlex.split(line, comments=True) for block in SHELL.findall(text) for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0].endswith("/counterfoil")]


COMMANDS = sorted({tuple(words) for page in PAGES for words in said_in(page.read_text())})
READING = [words for words in COMMANDS if words[0] in READS and "--inputs" not in words]
FIRST_STEPS = (ROOT / "README.md").read_text().split("## Try it by hand")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def waiting(shared: World) -> str:
    """A run that waits for approval."""
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    return run_id


def run(world: World, words: tuple[str, ...] | list[str], known: dict[str, str], token: str = "") -> Said:
    """With the words in capitals replaced by what they stand for, and time for what is read outside."""
    patient = {**world.environment, "COUNTERFOIL_READ_TIMEOUT": "60"}
    return Counterfoil(patient)(*[known.get(word, word) for word in words], token=token)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_only_reads_runs_as_it_is_written(shared: World, waiting: str, words: tuple[str, ...]) -> None:
    if words[0] == "doctor":
        shared.sandbox.add_property("companies", "partner_key", unique=True)
        shared.sandbox.add_property("tasks", "operation_key", unique=True)
    done = run(shared, words, {"RUN": waiting})
    assert (done.code, done.err) == (0, ""), done
    assert done.out


def test_there_is_something_of_each_kind_to_run() -> None:
    assert {words[0] for words in READING} == READS


def test_the_first_steps_of_the_readme_lead_to_an_onboarded_partner(shared: World) -> None:
    run_id = shared.submit(shared.seed().company_id)
    fingerprint = shared.wait_state(run_id, "awaiting_review")["fingerprint"]
    known = {"RUN": run_id, "FINGERPRINT": fingerprint, "sabine": "sabine-of-the-readme"}
    steps = said_in(FIRST_STEPS)
    for words in steps:
        done = run(shared, words, known, token=known.get("SECRET", ""))
        assert done.code == 0, (words, done)
        if words[0] == "token":
            known["SECRET"] = next(word for word in done.out.split() if word.startswith("cf_"))
        if words[0] == "approve":
            shared.wait_state(run_id, "succeeded")
    assert {"approve", "show", "token"} <= {words[0] for words in steps}


def test_a_rehearsal_is_started_as_it_is_written(shared: World) -> None:
    company = shared.seed().company_id
    (words,) = [words for words in COMMANDS if words[0] == "start" and "--rehearsal" in words]
    subject = next(word for word in words if word.startswith("hubspot:"))
    done = run(
        shared,
        words,
        {subject: subject.replace("PORTAL", PORTAL).replace("COMPANY", company)},
        token=shared.actor("otto", "operator"),
    )
    assert done.code == 0, done
    run_id = done.out.split()[-1]
    assert eventually(lambda: shared.show(run_id)["state"] == "succeeded", within=30)
    assert shared.accounts(run_id) == []
