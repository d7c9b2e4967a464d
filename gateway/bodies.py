"""What the run API takes, and what it tells of many at once: without a web framework, as commands use it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from business_store.resolving import ResolutionAsked, Resolved
from domain.approvals import Outcome
from domain.errors import CounterfoilError
from domain.resolutions import Action

Body = ConfigDict(extra="forbid", frozen=True)


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("text without NUL")
    return text


Plain = Annotated[str, AfterValidator(_plain)]
"""Text that a text column can hold."""


class DecisionBody(BaseModel):
    """A decision about the version and fingerprint that the caller saw."""

    model_config = Body
    outcome: Outcome
    version: int = Field(ge=1)
    fingerprint: str = Field(min_length=64, max_length=64)
    comment: str = Field("", max_length=4000)


class ResolutionBody(BaseModel):
    """An operator's resolution, with what it rests on."""

    model_config = Body
    action: Action
    reason: Plain = Field(min_length=1, max_length=4000)
    evidence: Plain = Field(min_length=1, max_length=4000)
    reference: Plain | None = Field(None, max_length=255)
    operation: Plain | None = None


class StartBody(BaseModel):
    """A run asked for by a person or program rather than by a CRM event."""

    model_config = Body
    process: Plain
    subject: Plain = Field(description="SYSTEM:ACCOUNT:TYPE:ID")
    business_key: str | None = None
    rehearsal: bool = False


class RevocationBody(BaseModel):
    """Why an approval is taken back."""

    model_config = Body
    reason: Plain = Field(min_length=1, max_length=4000)


class ResolutionItem(ResolutionBody):
    """One of several resolutions."""

    run: Plain


def answered(asked: Sequence[ResolutionAsked], results: Sequence[Resolved | CounterfoilError]) -> list[dict[str, Any]]:
    """What became of each item, as every door shows it."""
    return [
        {"index": index, "run": item.run_id, **_result(result)}
        for index, (item, result) in enumerate(zip(asked, results, strict=True))
    ]


def _result(result: Resolved | CounterfoilError) -> dict[str, Any]:
    if isinstance(result, Resolved):
        return {"status": 200, **asdict(result)}
    return {"status": result.status, **result.as_dict()}
