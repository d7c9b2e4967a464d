"""HubSpot's object types, properties and association types, as far as the sandbox has them.

Association type ids: 1/2 primary and 279/280 plain between contact and company, 191/192 company and task,
203/204 contact and task.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.hubspot_errors import not_found
from sandbox.records import Records

MERGED_IDS = "hs_merged_object_ids"


@dataclass(frozen=True)
class ObjectType:
    """A CRM object type and the names of its system properties."""

    name: str
    singular: str
    type_id: str
    created: str
    modified: str
    properties: frozenset[str]
    unique: frozenset[str]
    required: frozenset[str] = frozenset()

    @property
    def read_only(self) -> frozenset[str]:
        return frozenset({"hs_object_id", MERGED_IDS, self.created, self.modified})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPANIES = ObjectType(
    "companies",
    "company",
    "0-2",
    "createdate",
    "hs_lastmodifieddate",
    _names(
        "name domain website phone country city address zip state industry description hubspot_owner_id "
        "lifecyclestage type numberofemployees annualrevenue onboarding_stage partner_email legal_form bank_holder "
        "iban counterfoil_state counterfoil_reason counterfoil_run counterfoil_account operation_key partner_key"
    ),
    frozenset({"partner_key"}),
)
CONTACTS = ObjectType(
    "contacts",
    "contact",
    "0-1",
    "createdate",
    "lastmodifieddate",
    _names(
        "email firstname lastname phone mobilephone jobtitle company country hubspot_owner_id lifecyclestage "
        "description operation_key"
    ),
    _names("email"),
)
TASKS = ObjectType(
    "tasks",
    "task",
    "0-27",
    "hs_createdate",
    "hs_lastmodifieddate",
    _names(
        "hs_timestamp hs_task_subject hs_task_body hs_task_status hs_task_priority hs_task_type hs_task_reminders "
        "hs_task_completion_date hubspot_owner_id operation_key"
    ),
    _names("operation_key"),
    _names("hs_timestamp"),
)
TYPES = (COMPANIES, CONTACTS, TASKS)
_BY_NAME = {name: kind for kind in TYPES for name in (kind.name, kind.singular, kind.type_id)}


def object_type(name: str) -> ObjectType:
    """Accepts `companies`, `company` and `0-2`. Raises HubSpot's 404 for other names."""
    if name not in _BY_NAME:
        raise not_found(f"Unable to infer object type from: {name};")
    return _BY_NAME[name]


class Properties:
    """Which properties exist and which are unique: the built-in ones and those added by a control call."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def known(self, kind: ObjectType) -> frozenset[str]:
        return kind.properties | self._added(kind, "is_unique >= 0") | kind.read_only

    def unique(self, kind: ObjectType) -> frozenset[str]:
        return kind.unique - self._added(kind, "is_unique = 0") | self._added(kind, "is_unique = 1")

    def add(self, kind: ObjectType, name: str, *, unique: bool) -> None:
        """Also switches a built-in property to unique or back, for values written from then on."""
        self._records.write("insert or replace into properties values (?, ?, ?)", kind.name, name, int(unique))

    def _added(self, kind: ObjectType, which: str) -> frozenset[str]:
        rows = self._records.rows(f"select name from properties where type = ? and {which}", kind.name)
        return frozenset(row["name"] for row in rows)


@dataclass(frozen=True)
class AssociationType:
    """One direction of an association; `inverse` is the type id of the other one."""

    type_id: int
    start: ObjectType
    end: ObjectType
    inverse: int
    label: str | None = None

    @property
    def name(self) -> str:
        plain = "_unlabeled" if self.type_id in (279, 280) else ""
        return f"{self.start.singular}_to_{self.end.singular}{plain}"


_ASSOCIATIONS = (
    AssociationType(1, CONTACTS, COMPANIES, 2, "Primary"),
    AssociationType(2, COMPANIES, CONTACTS, 1, "Primary"),
    AssociationType(279, CONTACTS, COMPANIES, 280),
    AssociationType(280, COMPANIES, CONTACTS, 279),
    AssociationType(192, TASKS, COMPANIES, 191),
    AssociationType(191, COMPANIES, TASKS, 192),
    AssociationType(204, TASKS, CONTACTS, 203),
    AssociationType(203, CONTACTS, TASKS, 204),
)
ASSOCIATION_TYPES = {kind.type_id: kind for kind in _ASSOCIATIONS}
# a primary association is also a plain one, as HubSpot lists it
PLAIN_OF_PRIMARY = {1: 279, 2: 280}


def plain_association(start: ObjectType, end: ObjectType) -> AssociationType | None:
    """The unlabelled association type between two object types."""
    return next((a for a in _ASSOCIATIONS if (a.start, a.end, a.label) == (start, end, None)), None)
