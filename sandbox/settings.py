"""Settings: fixed ones of the process, and those that may change while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sandbox.records import Records


class Adjustable(BaseModel):
    """What `POST /sandbox/settings` may change; kept in the data file until the next reset. Times are seconds."""

    model_config = ConfigDict(extra="forbid")

    search_lag: float = Field(0, ge=0)
    merge_new_id: bool = True
    webhook_urls: list[str] = []
    webhook_secret: str = "sandbox-client-secret"
    # what the app subscribed to: type ids such as 0-2 and property names, None for all
    webhook_types: list[str] | None = None
    webhook_properties: list[str] | None = None
    webhook_hold: bool = False
    webhook_duplicate: bool = False
    webhook_reorder: bool = False
    webhook_retry_first: float = Field(0.5, gt=0)
    webhook_retry_growth: float = Field(2.0, ge=1)
    webhook_retry_longest: float = Field(3600, gt=0)
    webhook_attempts: int = Field(11, ge=1)
    webhook_timeout: float = Field(5.0, gt=0)
    # account events of Stripe's: none without a URL
    stripe_webhook_urls: list[str] = []
    stripe_webhook_secret: str = "whsec_sandbox"
    idempotency_retention: float = Field(86400, ge=0)
    # OAuth: seconds that an access token lives; whether a refresh token is good for one use only; refresh refused;
    # raising the epoch ends every access token at once; a private app token may be revoked too
    oauth_lifetime: float = Field(1800, gt=0)
    oauth_rotates: bool = False
    oauth_refuses: bool = False
    oauth_epoch: int = 0
    hubspot_token_revoked: bool = False
    # how far the practice provider's clock is ahead, how long it keeps a key (None: as its mode), its index's lag
    practice_ahead: float = Field(0, ge=0)
    practice_window: float | None = Field(None, ge=0)
    practice_lag: float = Field(60, ge=0)
    practice_callback_url: str = ""
    practice_callback_secret: str = "whsec_c2FuZGJveC1wcmFjdGljZS1jYWxsYmFja3M="


class Settings(BaseSettings, Adjustable):
    """Read from SANDBOX_* (lists as JSON) and overridden by the command line; includes where the adjustable start."""

    model_config = SettingsConfigDict(env_prefix="SANDBOX_")

    host: str = "127.0.0.1"
    port: int = Field(8600, ge=0, le=65535)
    data: Path = Path("sandbox.sqlite")
    hubspot_token: str = "pat-sandbox-token"
    hubspot_portal_id: int = 90210001
    hubspot_app_id: int = 7700123
    hubspot_client_id: str = "sandbox-client-id"
    hubspot_oauth_secret: str = "sandbox-oauth-secret"
    hubspot_refresh_token: str = "rt-sandbox"
    stripe_key: str = "sk_test_sandbox"
    practice_token: str = "practice-sandbox-token"

    def adjustable(self) -> Adjustable:
        return Adjustable(**self.model_dump(include=set(Adjustable.model_fields)))


class Knobs:
    """The adjustable settings in force: those of the start, overlaid by what was changed over HTTP."""

    def __init__(self, start: Settings, records: Records) -> None:
        self._start = start
        self._records = records
        self.load()

    def load(self) -> None:
        changed = self._records.kept("settings", {})
        self.now = Adjustable(**{**self._start.adjustable().model_dump(), **changed})

    def change(self, changes: dict[str, Any]) -> None:
        """Raises pydantic.ValidationError on unknown names and bad values, changing nothing."""
        Adjustable(**{**self.now.model_dump(), **changes})
        self._records.keep("settings", {**self._records.kept("settings", {}), **changes})
        self.load()
