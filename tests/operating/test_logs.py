"""Log lines that a collector can take apart, and that join what several processes did for one run."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
from eventually import eventually
from watching import Watched

from operating.joining import joined
from operating.logs import QUIET, JsonLines, TextLines, where, write_logs

ALWAYS = {"time", "level", "logger", "message"}
SOMETIMES = {"run", "subject", "operation", "correlation", "workflow", "trace", "exception"}


def test_every_line_of_every_process_is_json_with_known_fields(watched: Watched, approved: str) -> None:
    for program in ("gateway", "worker"):
        lines = watched.lines(program)
        assert lines
        for line in lines:
            assert set(line) >= ALWAYS
            assert set(line) <= ALWAYS | SOMETIMES


def test_one_correlation_joins_a_run_from_trigger_to_send(watched: Watched, approved: str) -> None:
    run_id = approved
    shown = watched.world.show(run_id)
    started = next(line for line in watched.lines("gateway") if line.get("run") == run_id and "correlation" in line)
    said = [line for line in watched.lines("worker") if line.get("correlation") == started["correlation"]]
    assert {line["run"] for line in said} == {run_id}
    assert {line["subject"] for line in said} == {started["subject"]} == {shown["subject"]}
    sent = [line for line in said if line["message"].startswith("sent ")]
    assert {line["operation"] for line in sent} == {each["operation"] for each in shown["operations"]}
    assert started["correlation"] == watched.world.events(run_id)[0]["correlation_id"]


def test_a_refused_trigger_is_a_line_without_its_body(watched: Watched) -> None:
    body = b'[{"objectId": "Nordwind Handels GmbH"}]'
    assert watched.world.http.post("/triggers/hubspot", content=body).status_code == 401
    assert "Nordwind" not in (watched.folder / "gateway.log").read_text()
    eventually(lambda: [line for line in watched.lines("gateway") if "trigger from hubspot refused" in line["message"]])


class Quoting(Exception):
    """Its text repeats what it was given, as database drivers do."""


def failing() -> None:
    try:
        raise Quoting("Key (iban)=(DE89370400440532013000) already exists")
    except Quoting as cause:
        raise RuntimeError("could not store DE89370400440532013000") from cause


def hiding() -> None:
    try:
        failing()
    except RuntimeError:
        raise ValueError from None


@pytest.mark.parametrize("style", [JsonLines, TextLines])
def test_an_exception_is_told_by_type_and_place_never_by_its_text(style: Callable[[], logging.Formatter]) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(style())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        failing()
    except RuntimeError:
        logger.exception("failed")
    assert "DE89" not in written.getvalue()
    assert all(part in written.getvalue() for part in ("Quoting", "RuntimeError", "test_logs.py"))


def test_a_hidden_cause_stays_hidden() -> None:
    with pytest.raises(ValueError) as caught:
        hiding()
    assert "RuntimeError" not in where(caught.value)


@pytest.mark.parametrize(("style", "shown"), [("json", '"run": "run-1"'), ("text", " run=run-1")])
def test_joining_fields_are_those_of_the_moment_of_logging(
    style: str, shown: str, capsys: pytest.CaptureFixture[str], quiet_root: None
) -> None:
    write_logs(style)
    with joined(run="run-1", subject=""), joined(operation="op-1"):
        logging.getLogger("here").info("inside")
    logging.getLogger("here").info("outside")
    inside, outside = capsys.readouterr().err.splitlines()
    assert shown in inside
    assert "op-1" in inside
    assert "subject" not in inside
    assert "run-1" not in outside
    if style == "json":
        assert json.loads(inside)["operation"] == "op-1"


@pytest.fixture
def quiet_root() -> Iterator[None]:
    """Every logger as it was, after a test that set them up."""
    root = logging.getLogger()
    handlers, changed = list(root.handlers), [root, *map(logging.getLogger, QUIET)]
    levels = [each.level for each in changed]
    yield
    root.handlers[:] = handlers
    for each, level in zip(changed, levels, strict=True):
        each.setLevel(level)
