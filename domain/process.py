"""How a process is declared: inputs, review, effects with their contracts, agreement. Data only, read by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domain.canonical import canonical_bytes, fingerprint
from domain.identity import SubjectRef
from domain.ports import Wanted


class Inputs(BaseModel):
    """The inputs of a process. Every field is text from the CRM and material unless declared otherwise."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)


P = TypeVar("P", bound=Inputs)
PROJECTED = frozenset({"counterfoil_state", "counterfoil_reason", "counterfoil_run", "counterfoil_account"})


def crm(name: str, *, material: bool = True, default: Any = ...) -> Any:  # noqa: ANN401 (pydantic's own field type)
    """A field read from the CRM property `name`; `linked.NAME` reads the linked record."""
    return Field(default, json_schema_extra={"crm": name, "material": material})


def _extra(model: type[Inputs], name: str) -> Mapping[str, Any]:
    extra = model.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def crm_names(model: type[Inputs]) -> dict[str, str]:
    """CRM property name of each field."""
    return {name: str(_extra(model, name).get("crm", name)) for name in model.model_fields}


def material_fields(model: type[Inputs]) -> frozenset[str]:
    """Fields whose change voids an approval. A field that nobody declared is material."""
    return frozenset(name for name in model.model_fields if _extra(model, name).get("material", True))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The canonical bytes of one set of inputs, and what is wrong with them (field and rule, never the value)."""

    canonical: bytes
    fingerprint: str
    problems: tuple[str, ...]


def snapshot_of(model: type[Inputs], values: Mapping[str, str | None]) -> Snapshot:
    """Canonical form of these CRM values. Absent, null and empty are one thing: not given."""
    named = {name: values.get(prop) or None for name, prop in crm_names(model).items()}
    raw = canonical_bytes(named)
    return Snapshot(raw, fingerprint(raw), problems_of(model, named))


def problems_of(model: type[Inputs], named: Mapping[str, str | None]) -> tuple[str, ...]:
    """One `field: rule` per value that the model refuses."""
    try:
        model.model_validate(named)
    except ValidationError as refused:
        return tuple(sorted(f"{'.'.join(map(str, e['loc']))}: {_rule(dict(e))}" for e in refused.errors()))
    return ()


def _rule(error: Mapping[str, Any]) -> str:
    """The rule alone: pydantic's message can hold the value, its type cannot."""
    if error["input"] is None:
        return "missing"
    allowed = error.get("ctx", {}).get("error")
    return str(allowed) if isinstance(allowed, ValueError) else str(error["type"])


@dataclass(frozen=True, slots=True)
class EffectContext:
    """What an effect's fields may be made of besides the inputs."""

    run: str
    subject: SubjectRef
    owner: str | None
    read_at: datetime
    """When the version was read: a recorded time, so that rendering twice gives the same bytes."""
    references: Mapping[str, str]


@dataclass(frozen=True)
class Effect(Generic[P]):
    """One intended outside effect: which connector, which of its operations, made of which fields."""

    step: str
    system: str
    operation: str
    fields: Callable[[P, EffectContext], Mapping[str, str | None]]
    title: str
    compared: Callable[[P, EffectContext], Mapping[str, str | None]]
    """Fields that must agree when the effect is read back, with the values they must have."""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Who is asked, how long the question stays open, how long the answer permits sends."""

    role: str
    deadline: timedelta
    valid_for: timedelta


@dataclass(frozen=True, slots=True)
class Trigger:
    """The CRM change that starts a run: this property takes this value."""

    system: str
    object_type: str
    property_name: str
    value: str
    inline: bool = False
    """Whether requests that carry their inputs themselves (Standard Webhooks) start a run too; one process at most."""


@dataclass(frozen=True)
class Process(Generic[P]):
    """One kind of business run. `policy` is the version that a run pins at intake."""

    name: str
    policy: str
    inputs: type[P]
    trigger: Trigger
    review: ReviewPolicy
    effects: tuple[Effect[P], ...]
    linked_type: str = ""
    linked_object_type: str = ""
    """Names of the linked record's type in paths and in events; empty where nothing linked is read."""
    written: frozenset[str] = PROJECTED
    """CRM properties that our projection writes; disjoint from the inputs."""
    account_step: str = ""
    """The effect whose id the CRM shows as the account; empty where there is none."""
    amend_budget: timedelta = timedelta(days=30)
    fresh_for: timedelta = timedelta(seconds=30)
    operator_role: str = "operator"
    revises_after_success: bool = True
    material: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        read = set(crm_names(self.inputs).values()) | {self.trigger.property_name}
        overlap = sorted(read & self.written)
        if overlap:
            raise ValueError(f"{self.name}: properties both read and written: {', '.join(overlap)}")
        object.__setattr__(self, "material", material_fields(self.inputs))

    @property
    def wanted(self) -> Wanted:
        """What a snapshot reads of the CRM."""
        names = crm_names(self.inputs).values()
        linked = tuple(sorted(n.removeprefix("linked.") for n in names if n.startswith("linked.") and n != "linked.id"))
        own = tuple(sorted(name for name in names if not name.startswith("linked.")))
        return Wanted(own, self.linked_type, linked)

    def effect(self, step: str) -> Effect[P]:
        """The declared effect of this step. Raises KeyError."""
        return {effect.step: effect for effect in self.effects}[step]

    def document(self) -> dict[str, Any]:
        """The policy as it is stored, immutable, with the version that names it."""
        return {
            "process": self.name,
            "policy": self.policy,
            "material": sorted(self.material),
            "fields": sorted(self.inputs.model_fields),
            "review": {
                "role": self.review.role,
                "deadline_seconds": str(self.review.deadline.total_seconds()),
                "valid_for_seconds": str(self.review.valid_for.total_seconds()),
            },
            "effects": [f"{e.step}={e.system}.{e.operation}" for e in self.effects],
            "revises_after_success": self.revises_after_success,
            "amend_budget_seconds": str(self.amend_budget.total_seconds()),
        }
