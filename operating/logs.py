"""One line per record, as JSON or as text. What is not a known field never reaches a line."""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeAlias

from pythonjsonlogger.json import JsonFormatter

from operating.joining import fields
from operating.traces import current_trace

ExcInfo: TypeAlias = (
    "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | BaseException"
)
QUIET = ("httpx", "httpcore", "opentelemetry.exporter")
"""Libraries that would name every request."""


def write_logs(style: str, level: str = "INFO") -> None:
    """Send all records of this process to standard error, as `json` or `text`, from `level` on."""
    handler = logging.StreamHandler()
    handler.addFilter(_join)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _join(record: logging.LogRecord) -> bool:
    """Note the fields when the record is made: a formatter may run in another context."""
    record.joining = dict(fields()) | _engine_fields(record) | _trace_field()
    return True


def _engine_fields(record: logging.LogRecord) -> dict[str, str]:
    """The SDK hangs a description on records of workflows and activities; only its id is taken over."""
    described = getattr(record, "temporal_workflow", None) or getattr(record, "temporal_activity", None) or {}
    return {"workflow": described["workflow_id"]} if "workflow_id" in described else {}


def _trace_field() -> dict[str, str]:
    trace = current_trace()
    return {"trace": trace} if trace else {}


def where(problem: ExcInfo) -> str:
    """Types and places of an exception and what caused it. Its text is left out: it may quote values."""
    found = problem[1] if isinstance(problem, tuple) else problem
    if found is None:
        return ""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(found.__traceback__)]
    cause = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return "\n".join([*([where(cause)] if cause else []), *frames, type(found).__name__])


class JsonLines(JsonFormatter):
    """Time, level, logger and message, the joining fields, and where an exception came from."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        log_data |= getattr(record, "joining", {})
        if record.exc_info:
            log_data["exception"] = where(record.exc_info)

    def formatException(self, ei: ExcInfo) -> str:
        return where(ei)


class TextLines(logging.Formatter):
    """The same for a person at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        joining = getattr(record, "joining", {})
        return super().formatMessage(record) + "".join(f" {name}={text}" for name, text in joining.items())

    def formatException(self, ei: ExcInfo) -> str:
        return where(ei)
