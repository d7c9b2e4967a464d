"""Tokens that all processes share: kept in one row, renewed by whoever has the claim, never logged or shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from business_store.database import Store
from business_store.limits import release
from domain.canonical import sha256
from domain.credentials import Renewed, Token
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
        refresh_token = coalesce(:refresh, refresh_token),
        expires_at = clock_timestamp() + :lifetime, renewed_at = clock_timestamp(), renewing_until = NULL
    WHERE (system, scope, version) = (:system, :scope, :version)
""")
GIVEN_UP = text("""
    UPDATE credential SET renewing_until = NULL, refused_at = CASE WHEN :refused THEN clock_timestamp() END
    WHERE (system, scope, version) = (:system, :scope, :version)
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
HELD_SCOPES = text("SELECT scope FROM shared_limit WHERE system = :system AND held IS NOT NULL ORDER BY scope")


@dataclass(frozen=True)
class StoredCredential:
    """The row of one account. `seed` is the refresh token that was configured: it counts until another is stored."""

    store: Store
    system: str
    scope: str
    seed: str = field(repr=False)

    def _named(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (any column)
        return {"system": self.system, "scope": self.scope, **more}

    def current(self) -> Token:
        """As stored now; the configured refresh token is stored at the first look."""
        row = self.store.read(lambda connection: connection.execute(CURRENT, self._named()).first())
        if row is None:
            seed = self.seed.encode()
            seeded = self._named(sha=sha256(seed), refresh=seed)
            self.store.write(lambda connection: connection.execute(SEED, seeded))
            return Token(0, None)
        access = None if row.access_token is None else row.access_token.decode()
        return Token(row.version, access, row.refused, row.fresh)

    def claim(self, version: int) -> str | None:
        """The refresh token, for one caller at a time; None for all others."""
        named = self._named(version=version, length=CLAIMED_FOR)
        given = self.store.once(lambda connection: connection.execute(CLAIM, named).scalar())
        return None if given is None else bytes(given).decode()

    def renewed(self, version: int, renewed: Renewed) -> None:
        """Store the tokens before anybody uses them: a refresh token may be good for one use only."""
        kept = {"access": renewed.access.encode(), "lifetime": renewed.lifetime}
        refresh = None if renewed.refresh is None else renewed.refresh.encode()
        named = self._named(version=version, refresh=refresh, **kept)
        self.store.write(lambda connection: connection.execute(RENEWED, named))

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
    held = [str(scope) for scope in connection.execute(HELD_SCOPES, {"system": system}).scalars()]
    return [scope for scope in held if release(connection, system, scope)]
