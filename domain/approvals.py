"""Whether a person's decision covers an input version at an instant, and what of it outlives an amendment."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Outcome(StrEnum):
    """The closed set of decisions."""

    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGES_REQUESTED = "changes_requested"


@dataclass(frozen=True, slots=True)
class Version:
    """One input version as far as decisions need it; `makers` are the persons who made it, requester included."""

    number: int
    fingerprint: str
    makers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """A recorded decision; `carried_to` are the versions to which rulings extended it."""

    id: str
    outcome: Outcome
    version: int
    fingerprint: str
    person: str
    valid_until: datetime
    revoked: bool = False
    carried_to: frozenset[int] = frozenset()


class NotCovered(StrEnum):
    """Why no decision covers a version."""

    MISSING = "decision_missing"
    EXPIRED = "decision_expired"
    REVOKED = "decision_revoked"
    OWN_WORK = "approver_made_version"


def _about(decision: Decision, version: Version) -> bool:
    exact = decision.version == version.number and decision.fingerprint == version.fingerprint
    return exact or version.number in decision.carried_to


def _flaw(decision: Decision, version: Version, now: datetime) -> NotCovered | None:
    if decision.revoked:
        return NotCovered.REVOKED
    if now >= decision.valid_until:
        return NotCovered.EXPIRED
    return NotCovered.OWN_WORK if decision.person in version.makers else None


def covering(decisions: Sequence[Decision], version: Version, now: datetime) -> Decision | NotCovered:
    """The approval that permits sends of this version at this instant, or why there is none."""
    flaw = NotCovered.MISSING
    for decision in reversed(decisions):
        if decision.outcome is not Outcome.APPROVED or not _about(decision, version):
            continue
        found = _flaw(decision, version, now)
        if found is None:
            return decision
        flaw = found
    return flaw


def changed_fields(before: bytes, after: bytes) -> frozenset[str]:
    """Names of the fields whose canonical values differ. A field on one side only has changed."""
    old, new = json.loads(before), json.loads(after)
    return frozenset(name for name in old.keys() | new.keys() if old.get(name, _ABSENT) != new.get(name, _ABSENT))


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision may be carried over: these fields changed and none of them is material."""

    decision_id: str
    changed: frozenset[str]


def carry_over(
    approved: Decision, versions: Sequence[tuple[Version, bytes | None]], immaterial: Collection[str], now: datetime
) -> Ruling | None:
    """The ruling that extends `approved` to the last of `versions`, or None.

    `versions` runs from the one a person approved to the newest. None when any of them differs in a material field
    (back to the old value after a detour does not count as equal), when one was erased and cannot be compared, when the
    approver made the newest, or when the decision no longer holds.
    """
    newest = versions[-1][0]
    if approved.outcome is not Outcome.APPROVED or _flaw(approved, newest, now) is not None:
        return None
    contents = [content for _, content in versions if content is not None]
    differing = [changed_fields(contents[0], content) for content in contents]
    if len(contents) < len(versions) or any(changed - set(immaterial) for changed in differing):
        return None
    return Ruling(approved.id, differing[-1])
