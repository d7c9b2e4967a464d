"""Typed refusals. Each names what was refused, the state it met and what may be done next."""

from __future__ import annotations

from collections.abc import Sequence


class CounterfoilError(Exception):
    """Something that was asked for is not permitted or not possible."""

    status = 409
    code = "refused"

    def __init__(self, message: str, *, next_actions: Sequence[str] = (), **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.next_actions = tuple(next_actions)
        self.fields = fields

    def as_dict(self) -> dict[str, object]:
        """The error as every door (HTTP, CLI) prints it."""
        return {"error": self.code, "message": self.message, "next_actions": list(self.next_actions), **self.fields}


class InvalidInput(CounterfoilError):
    """A value is not what its field allows."""

    status = 422
    code = "invalid_input"

    def __init__(self, field: str, allowed: str) -> None:
        super().__init__(f"{field}: must be {allowed}", field=field, allowed=allowed)


class NotFound(CounterfoilError):
    """No such row."""

    status = 404
    code = "not_found"

    def __init__(self, kind: str, ident: str) -> None:
        super().__init__(f"no {kind} {ident!r}", kind=kind, id=ident)


class ContentErased(CounterfoilError):
    """The bytes were erased after their time; their hash, and who approved it, are kept."""

    status = 410
    code = "content_erased"

    def __init__(self, kind: str, ident: str) -> None:
        super().__init__(
            f"the content of {kind} {ident} was erased",
            next_actions=["amend the record in the CRM: its inputs are then read anew"],
            kind=kind,
            id=ident,
        )


class NotAuthenticated(CounterfoilError):
    """The caller did not prove who they are."""

    status = 401
    code = "not_authenticated"


class NotAuthorised(CounterfoilError):
    """The caller is known and may not do this."""

    status = 403
    code = "not_authorised"


class MoveNotPermitted(CounterfoilError):
    """The table of permitted moves has no such row."""

    code = "move_not_permitted"


class RaceLost(CounterfoilError):
    """Another transaction changed the row first; read again and decide again."""

    code = "race_lost"


class CommitUnknown(CounterfoilError):
    """The answer to a commit was lost, and what became of it could not be found out: it may have been recorded."""

    status = 503
    code = "commit_unknown"


class StoreAway(CounterfoilError):
    """The store could not take this item of several; `why` says what was the matter."""

    status = 503
    code = "store_away"


class Superseded(CounterfoilError):
    """A newer engine execution owns this run; this one may add answers and readings only."""

    code = "superseded"


class DecisionRefused(CounterfoilError):
    """A decision was not recorded."""

    code = "decision_refused"


class ResolutionRefused(CounterfoilError):
    """An operator's resolution was not recorded."""

    code = "resolution_refused"


class SameKeyOtherContent(CounterfoilError):
    """A key was used again for different content."""

    code = "same_key_other_content"


class ReadFailed(CounterfoilError):
    """An outside record could not be read; nothing is known about it."""

    status = 503
    code = "read_failed"


class SubjectGone(CounterfoilError):
    """The CRM record is archived, deleted or merged into another under an id nobody told us."""

    status = 404
    code = "subject_gone"


class Throttled(ReadFailed):
    """A read was refused by a rate limit; `retry_after` is in seconds."""

    code = "throttled"


class CredentialRefused(ReadFailed):
    """The system refuses our credential, and no program can renew it: every run to it waits for a person."""

    code = "credential_refused"
