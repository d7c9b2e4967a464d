"""Tokens that all processes share: kept in one row, renewed by whoever has the claim, never logged or shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, TextClause, text

from business_store.database import Store
from business_store.limits import release
from domain.canonical import sha256
from domain.credentials import Account, Renewed, Token
from domain.errors import NotFound

CLAIMED_FOR = timedelta(seconds=30)
"""A renewer that died keeps others out for this long."""

SEED = text("""
    INSERT INTO credential (system, scope, seed_sha256, refresh_token) VALUES (:system, :scope, :sha, :refresh)
    ON CONFLICT (system, scope) DO NOTHING
""")
CURRENT = text("""
    SELECT version, CASE WHEN expires_at > clock_timestamp() THEN access_token END AS access_token,
        refused_at IS NOT NULL AS refused,
        refused_at IS NOT NULL AND seed_sha256 <> :sha AND NOT :sha = ANY (former_seeds) AS replaceable,
        coalesce(renewed_at > clock_timestamp() - interval '60 seconds', false) AS fresh
    FROM credential WHERE (system, scope) = (:system, :scope)
""")
CLAIM = text("""
    UPDATE credential SET renewing_until = clock_timestamp() + :length
    WHERE (system, scope, version) = (:system, :scope, :version) AND refused_at IS NULL
    AND (renewing_until IS NULL OR renewing_until < clock_timestamp()) RETURNING refresh_token
""")
RENEWED = text("""
    UPDATE credential SET version = version + 1, access_token = :access,
        refresh_token = coalesce(:refresh, refresh_token), refused_at = NULL,
        expires_at = clock_timestamp() + :lifetime, renewed_at = clock_timestamp(), renewing_until = NULL
    WHERE (system, scope, version) = (:system, :scope, :version) RETURNING version
""")
GIVEN_UP = text("""
    UPDATE credential SET renewing_until = NULL,
        refused_at = CASE WHEN :refused THEN clock_timestamp() ELSE refused_at END
    WHERE (system, scope, version) = (:system, :scope, :version)
""")
RESEEDED = text("""
    UPDATE credential SET refresh_token = :refresh, former_seeds = array_append(former_seeds, seed_sha256),
        seed_sha256 = :sha, access_token = NULL, expires_at = NULL, version = version + 1,
        refused_at = NULL, renewing_until = NULL, renewed_at = NULL
    WHERE (system, scope) = (:system, :scope) AND refused_at IS NOT NULL
    AND seed_sha256 <> :sha AND NOT :sha = ANY (former_seeds)
""")
REPLACED = text("""
    UPDATE credential SET refresh_token = :refresh, access_token = NULL, expires_at = NULL, version = version + 1,
        refused_at = NULL, renewing_until = NULL, renewed_at = NULL WHERE system = :system RETURNING scope
""")
ANEW = text("""
    UPDATE credential SET refused_at = NULL, access_token = NULL, renewing_until = NULL, renewed_at = NULL
    WHERE system = :system
""")
LISTED = text("""
    SELECT coalesce(c.system, l.system) AS system, coalesce(c.scope, l.scope) AS scope,
        c.system IS NOT NULL AS renewable,
        c.version AS renewals, c.renewed_at, c.expires_at, l.held, l.held_at
    FROM credential c FULL JOIN (SELECT * FROM shared_limit WHERE held IS NOT NULL) l
        ON (l.system, l.scope) = (c.system, c.scope) ORDER BY 1, 2
""")
SCOPES = text("SELECT scope FROM shared_limit WHERE system = :system ORDER BY scope")


@dataclass(frozen=True)
class StoredCredential:
    """The row of one account. `seed` is the refresh token that was configured.

    It counts until another is stored, and again when that is refused, if it is one that was not tried before.
    """

    store: Store
    system: str
    scope: str
    seed: str = field(repr=False)

    def _named(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (any column)
        return {"system": self.system, "scope": self.scope, **more}

    def current(self) -> Token:
        """As stored now; the configured refresh token is stored at the first look."""
        row = self._row()
        if row is None:
            self._seeded(SEED)
            return Token(0, None)
        if row.replaceable:
            self._seeded(RESEEDED)
            row = self._row()
        access = None if row.access_token is None else row.access_token.decode()
        return Token(row.version, access, row.refused, row.fresh)

    def _row(self) -> Any:  # noqa: ANN401 (a row with the columns of CURRENT)
        named = self._named(sha=sha256(self.seed.encode()))
        return self.store.read(lambda connection: connection.execute(CURRENT, named).first())

    def _seeded(self, how: TextClause) -> None:
        seed = self.seed.encode()
        named = self._named(sha=sha256(seed), refresh=seed)
        self.store.write(lambda connection: connection.execute(how, named))

    def claim(self, version: int) -> str | None:
        """The refresh token, for one caller at a time; None for all others."""
        named = self._named(version=version, length=CLAIMED_FOR)
        given = self.store.once(lambda connection: connection.execute(CLAIM, named).scalar())
        return None if given is None else bytes(given).decode()

    def renewed(self, version: int, renewed: Renewed) -> None:
        """Store the tokens before anybody uses them: a refresh token may be good for one use only.

        What came late, after another renewer was refused, is good all the same: nobody waits any more.
        """
        kept = {"access": renewed.access.encode(), "lifetime": renewed.lifetime}
        refresh = None if renewed.refresh is None else renewed.refresh.encode()
        named = self._named(version=version, refresh=refresh, **kept)

        def stored(connection: Connection) -> None:
            if connection.execute(RENEWED, named).first() is not None:
                release(connection, Account(self.system, self.scope))

        self.store.write(stored)

    def given_up(self, version: int, *, refused: bool) -> None:
        """End the claim, for good where the refresh token was refused."""
        named = self._named(version=version, refused=refused)
        self.store.write(lambda connection: connection.execute(GIVEN_UP, named))


def credentials(connection: Connection) -> list[dict[str, Any]]:
    """Every account whose tokens are kept here, and every one that is held; never a token."""
    return [dict(row) for row in connection.execute(LISTED).mappings()]


def renew(connection: Connection, system: str, refresh_token: str | None) -> list[str]:
    """Another refresh token, or the word that the cause is mended: what waits goes on. Raises NotFound.

    Returns the accounts that were held.
    """
    if refresh_token is not None:
        replaced = connection.execute(REPLACED, {"system": system, "refresh": refresh_token.encode()}).all()
        if not replaced:
            raise NotFound("renewable credential", system)
    else:
        connection.execute(ANEW, {"system": system})
    scopes = [str(scope) for scope in connection.execute(SCOPES, {"system": system}).scalars()]
    return [scope for scope in scopes if release(connection, Account(system, scope))]
