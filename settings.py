"""Every setting of every process, read once from the environment. A missing or bad one is named at start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

STACK_DATA = "COUNTERFOIL_DATA", ".counterfoil"
"""Variable and default of the folder in which `make up` writes `env`, so that a second shell finds the stack."""
SECRETS_DIR = "COUNTERFOIL_SECRETS_DIR"
"""Names a folder of files such as `counterfoil_stripe_secret_key`; a variable of that name wins over the file."""


class SettingsError(Exception):
    """A setting is missing or not allowed; the message names each variable."""


class Settings(BaseSettings):
    """Environment variables are the field names in capitals with the prefix COUNTERFOIL_. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="COUNTERFOIL_", frozen=True, extra="ignore")

    database_url: SecretStr = Field(description="Postgres address of the restricted application role")
    database_owner_url: SecretStr | None = Field(None, description="Address of the owning role, for `db upgrade` only")
    database_retention_url: SecretStr | None = Field(
        None, description="Address of the role that erases, for `erase` only"
    )
    database_pool: int = Field(12, ge=1, le=200, description="Connections kept by one process")

    gateway_host: str = Field("127.0.0.1", description="Address on which the gateway listens")
    gateway_port: int = Field(8080, ge=0, le=65535, description="Port on which the gateway listens")
    public_url: str = Field("http://127.0.0.1:8080", description="Address of the gateway as others see it")
    temporal_ui_url: str = Field("http://127.0.0.1:8233", description="Address of Temporal UI, for links")
    task_queue: str = Field("counterfoil", description="Temporal task queue of the worker")
    body_limit: int = Field(2_000_000, ge=1_000, description="Largest accepted request body in bytes")

    hubspot_base_url: str = Field("https://api.hubapi.com", description="HubSpot API")
    hubspot_token: SecretStr | None = Field(None, description="Private app token; or the three settings of OAuth")
    hubspot_client_id: str | None = Field(None, description="OAuth client id")
    hubspot_oauth_secret: SecretStr | None = Field(None, description="OAuth client secret")
    hubspot_refresh_token: SecretStr | None = Field(
        None,
        description="First OAuth refresh token; then the store's counts, until that is refused and this is another",
    )
    hubspot_client_secret: SecretStr = Field(
        description="Secret that signs HubSpot's webhooks; several, comma separated"
    )
    hubspot_public_url: str = Field(description="Target URL as configured in HubSpot, over which it signs")
    hubspot_portal_id: str = Field(description="HubSpot account id")
    hubspot_app_id: str = Field(description="Our app id, by which our own writes are recognised")
    stripe_base_url: str = Field("https://api.stripe.com", description="Stripe API")
    stripe_secret_key: SecretStr = Field(description="Stripe secret key")
    stripe_webhook_secret: SecretStr = Field(
        SecretStr(""), description="Secret that signs Stripe's events; several, comma separated; empty: none is taken"
    )
    standard_webhooks_secret: SecretStr = Field(description="whsec_… of inline triggers; several, comma separated")

    send_before: float = Field(5, gt=0, description="From permit to first byte at the latest")
    send_timeout: float = Field(20, gt=0, description="Total time of one outside request")
    settle_time: float = Field(100, ge=0, description="H: how long a timed-out request may still execute")
    visibility_lag: float = Field(60, ge=0, description="V: how long a search may not show a record")
    outage_lag: float = Field(900, ge=0, description="V on a bad day: a search that shows nothing is asked until then")
    resend_window: float = Field(86_400, gt=0, description="W: how long Stripe keeps an idempotency key")
    window_margin: float = Field(3_600, ge=0, description="Nothing is sent this close to the end of the window")
    read_timeout: float = Field(10, gt=0, description="Total time of one outside read")
    step_margin: float = Field(30, gt=0, description="A step whose worker died is taken over this long after its time")
    fresh_for: float = Field(30, gt=0, description="Age of a CRM reading that a first send may rest on")
    retry_pause: float = Field(30, gt=0, description="Pause before a failed read is tried again by the run")
    retry_limit: int = Field(20, ge=1, description="Failed reads, or sends that never left, before a person is asked")
    recheck: float = Field(21_600, gt=0, description="A waiting run looks at the store at least this often")

    review_deadline: float | None = Field(None, gt=0, description="Overrides the deadline that the process declares")
    decision_valid_for: float | None = Field(None, gt=0, description="Overrides the validity that the process declares")

    sweep_interval: float = Field(15, gt=0, description="Pause between two sweeps")
    projection_interval: float = Field(2, gt=0, description="Pause between two passes that write state into the CRM")
    sweep_lease: float = Field(60, gt=0, description="How long a sweeper that died keeps others out")
    sweep_patience: float = Field(10, ge=0, description="Age at which an unstarted run or unseen nudge is repeated")
    engine_check: float = Field(1_800, gt=0, description="Each open run's execution is looked at this often")
    activity_threads: int = Field(
        10,
        ge=1,
        le=200,
        description="Activities that one worker runs at once, and twice as many steps within workflow tasks",
    )
    cached_runs: int = Field(
        500, ge=1, description="Executions that one worker keeps in memory; any other one is replayed when it goes on"
    )

    log_format: Literal["text", "json"] = Field("text", description="`text` for a terminal, `json` for a collector")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged")
    operating_host: str = Field("127.0.0.1", description="Address of the health and metrics ports")
    gateway_metrics_port: int = Field(0, ge=0, le=65535, description="Port of gateway's and store's metrics; 0: off")
    worker_health_port: int = Field(0, ge=0, le=65535, description="Port of the worker's health and metrics; 0: off")
    engine_metrics_port: int = Field(0, ge=0, le=65535, description="Port of the Temporal SDK's metrics; 0: off")

    @model_validator(mode="after")
    def _one_credential(self) -> Settings:
        if self.hubspot_token is None and self.hubspot_oauth is None:
            raise PydanticCustomError("hubspot_token", "Field required, or all three settings of OAuth")
        return self

    @property
    def hubspot_oauth(self) -> tuple[str, str, str] | None:
        """Client id, client secret and first refresh token, where all are set."""
        secret, refresh = self.hubspot_oauth_secret, self.hubspot_refresh_token
        if self.hubspot_client_id is None or secret is None or refresh is None:
            return None
        return self.hubspot_client_id, secret.get_secret_value(), refresh.get_secret_value()

    @cached_property
    def lease(self) -> timedelta:
        """From permit to the end of the time in which the request may be in flight."""
        return timedelta(seconds=self.send_before + self.send_timeout)


def _named(problem: Mapping[str, object]) -> str:
    location = problem["loc"] or ("hubspot_token",)
    name = str(location[0]) if isinstance(location, tuple) and location else "?"
    return f"COUNTERFOIL_{name.upper()}: {problem['msg']}"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings of this process. Raises SettingsError naming every bad variable."""
    try:
        return _of_this_process() if environment is None else Settings.model_validate(_fields(environment))
    except ValidationError as refused:
        raise SettingsError("\n".join(_named(dict(problem)) for problem in refused.errors())) from None


def _of_this_process() -> Settings:
    _adopt_local_stack()
    return Settings(_secrets_dir=_secrets())


def _secrets() -> Path | None:
    named = os.environ.get(SECRETS_DIR)
    if named and not Path(named).is_dir():
        raise SettingsError(f"{SECRETS_DIR}: {named} is no folder")
    return Path(named) if named else None


def _fields(environment: Mapping[str, str]) -> dict[str, str]:
    prefix = "COUNTERFOIL_"
    return {name.removeprefix(prefix).lower(): text for name, text in environment.items() if name.startswith(prefix)}


def _adopt_local_stack() -> None:
    """Take the addresses of the stack that runs in this folder, unless the environment names a database of its own."""
    told = {"COUNTERFOIL_DATABASE_URL", SECRETS_DIR} & os.environ.keys()
    written = Path(os.environ.get(*STACK_DATA), "env")
    if told or not written.exists():
        return
    lines = [line for line in written.read_text().splitlines() if "=" in line and not line.startswith("#")]
    for line in lines:
        name, _, text = line.partition("=")
        os.environ.setdefault(name.strip(), text.strip().strip("'\""))


def several(secret: SecretStr) -> tuple[str, ...]:
    """The secrets of one setting: more than one is accepted while they are being rotated."""
    return tuple(part.strip() for part in secret.get_secret_value().split(",") if part.strip())
