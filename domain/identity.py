"""Every identity, derived from business keys in one place and never from chance, time or the engine."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from dataclasses import dataclass

from domain.errors import InvalidInput

_SAFE = re.compile(r"[A-Za-z0-9._-]{1,80}\Z")
_OPERATION = re.compile(r"op-[a-z2-7]{26}\Z")
_DIGESTED = re.compile(r"k-[a-z2-7]{26}\Z")
MAX_KEY = 512


def short_digest(*parts: str) -> str:
    """26 base32 characters of a SHA-256 over the parts, length-prefixed so that no two lists collide."""
    framed = "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")
    return base64.b32encode(hashlib.sha256(framed).digest()).decode()[:26].lower()


def checked_key(key: str) -> str:
    """The one normal form of a business key: NFC, without spaces at its ends. Letters and case stay as given.

    Raises InvalidInput unless 1 to 512 printable characters are left.
    """
    normal = unicodedata.normalize("NFC", key).strip(" ")
    if not 1 <= len(normal) <= MAX_KEY or not normal.isprintable():
        raise InvalidInput("business_key", f"1 to {MAX_KEY} printable characters, not only spaces")
    return normal


def safe_key(key: str) -> str:
    """The key itself where Temporal UI can carry it, else `k-` and its digest (as for a key that looks like one)."""
    return key if _SAFE.match(key) and not _DIGESTED.match(key) else f"k-{short_digest(key)}"


@dataclass(frozen=True, slots=True)
class SubjectRef:
    """One CRM record. All parts are text: ids above 2**53 must keep every digit."""

    system: str
    account: str
    object_type: str
    object_id: str

    def __str__(self) -> str:
        return f"{self.system}:{self.account}:{self.object_type}:{self.object_id}"


def subject_of(text: str) -> SubjectRef:
    """The subject named `SYSTEM:ACCOUNT:TYPE:ID`. Raises InvalidInput."""
    parts = text.split(":")
    if len(parts) != 4 or not all(parts):
        raise InvalidInput("subject", "SYSTEM:ACCOUNT:TYPE:ID, such as hubspot:90210001:0-2:30100200300")
    return SubjectRef(*parts)


def subject_key(subject: SubjectRef) -> str:
    """Business key of a request about one CRM record: account, type and id (ids repeat between types)."""
    return checked_key(f"{subject.account}-{subject.object_type}-{subject.object_id}")


def workflow_id(process: str, business_key: str, run_number: int, epoch: int) -> str:
    """Id of the engine execution of a run, under 200 characters of `[A-Za-z0-9._-]`.

    The process part holds no dot, so that no two (process, key) pairs meet in one id.
    """
    name = f"k-{short_digest(process)}" if "." in process else safe_key(process)
    return f"{name}.{safe_key(business_key)}.r{run_number}.e{epoch}"


@dataclass(frozen=True, slots=True)
class OperationIdentity:
    """What makes two operations the same one. An update also names the input version, a create does not."""

    request_id: str
    step: str
    item: str = ""
    generation: int = 1
    version: int | None = None
    reverses: str = ""


def operation_key(identity: OperationIdentity) -> str:
    """The key that travels with every send of one operation: 29 ASCII characters, no dots, no time."""
    version = "" if identity.version is None else str(identity.version)
    digest = short_digest(
        identity.request_id, identity.step, identity.item, str(identity.generation), version, identity.reverses
    )
    return f"op-{digest}"


def is_operation_key(text: str) -> bool:
    """Whether it has the form of our keys, which no other text has by chance."""
    return _OPERATION.match(text) is not None


def crm_user(system: str, user: str) -> str:
    """The outside identity of a CRM user, as `counterfoil actor link` takes it."""
    return f"{system}:{user}"
