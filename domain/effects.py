"""What a declared effect is made of, and what it must look like when it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.errors import ContentErased
from domain.process import Effect, EffectContext, Process
from domain.records import Facts, StoredVersion

Fields = Mapping[str, str | None]


def target_of(facts: Facts) -> StoredVersion:
    """The version that the run is about."""
    target = facts.target
    if target is None:
        raise AssertionError("an effect needs a version: the snapshot step comes first")
    return target


def inputs_of(version: StoredVersion, process: Process[Any]) -> Any:  # noqa: ANN401 (the process's own inputs model)
    """The inputs as the process declares them. Raises ContentErased."""
    if version.canonical is None:
        raise ContentErased("input version", str(version.version.number))
    return process.inputs.model_validate_json(version.canonical)


def context_of(facts: Facts, run_id: str, version: StoredVersion) -> EffectContext:
    """What effects know besides the inputs: the run, its subject and owner, and the effects made before."""
    references = {op.step: op.reference for op in facts.operations if op.outcome == "accepted" and op.reference}
    return EffectContext(run_id, facts.subject, version.owner, version.read_at, references)


def expected(effect: Effect[Any], process: Process[Any], version: StoredVersion, context: EffectContext) -> Fields:
    """The fields that must agree, with the values that the version gives them."""
    return effect.compared(inputs_of(version, process), context)


def differing(expected: Fields, found: Fields) -> tuple[str, ...]:
    """Names of the fields that do not agree."""
    return tuple(sorted(name for name in expected if found.get(name) != expected[name]))
