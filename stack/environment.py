"""What the programs of the stack are told: one pure composition of their environment variables."""

import json
from collections.abc import Mapping

from stack.files import Paths
from stack.ports import LOOPBACK, PREFIX, Ports
from stack.provision import APP_ROLE, OWNER_ROLE, RETENTION_ROLE
from stack.secret_values import Secrets
from stack.temporal import NAMESPACE

# The account and app that the sandbox pretends to be; the real ones are numbers of this size.
PORTAL_ID = "90210001"
APP_ID = "7700123"
# Where our own database and engine are; everything else (services, time constants) may be told otherwise.
OWN = {
    *("COUNTERFOIL_DATABASE_URL", "COUNTERFOIL_DATABASE_OWNER_URL", "COUNTERFOIL_DATABASE_RETENTION_URL"),
    "COUNTERFOIL_TEMPORAL_UI_URL",
}


def environment(ports: Ports, secrets: Secrets, paths: Paths) -> dict[str, str]:
    return {
        **_database(ports, secrets),
        **_temporal(ports, paths),
        **_services(ports, secrets),
        **_sandbox(ports, secrets),
    }


def chosen_by_operator(variables: Mapping[str, str]) -> dict[str, str]:
    """Settings from the shell of `make up` that win over ours."""
    return {name: value for name, value in variables.items() if name.startswith(PREFIX) and name not in OWN}


def gateway_url(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.gateway_port}"


def sandbox_url(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.sandbox_port}"


def temporal_address(ports: Ports) -> str:
    return f"{LOOPBACK}:{ports.temporal_port}"


def temporal_ui_url(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.temporal_ui_port}"


def temporal_profile(ports: Ports) -> str:
    """A profile of our own, so that a person's own one (cloud address, key) never reaches the embedded stack."""
    return f'[profile.default]\naddress = "{temporal_address(ports)}"\nnamespace = "{NAMESPACE}"\n'


def _database(ports: Ports, secrets: Secrets) -> dict[str, str]:
    def url(role: str) -> str:
        return secrets.passwords.url(role, ports.postgres_port)

    return {
        "COUNTERFOIL_DATABASE_URL": url(APP_ROLE),
        "COUNTERFOIL_DATABASE_OWNER_URL": url(OWNER_ROLE),
        "COUNTERFOIL_DATABASE_RETENTION_URL": url(RETENTION_ROLE),
    }


def _temporal(ports: Ports, paths: Paths) -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": temporal_address(ports),
        "TEMPORAL_NAMESPACE": NAMESPACE,
        "TEMPORAL_CONFIG_FILE": str(paths.temporal_profile.absolute()),
        "COUNTERFOIL_TEMPORAL_UI_URL": temporal_ui_url(ports),
    }


def _services(ports: Ports, secrets: Secrets) -> dict[str, str]:
    return {
        "COUNTERFOIL_GATEWAY_HOST": LOOPBACK,
        "COUNTERFOIL_GATEWAY_PORT": str(ports.gateway_port),
        "COUNTERFOIL_PUBLIC_URL": gateway_url(ports),
        "COUNTERFOIL_HUBSPOT_BASE_URL": sandbox_url(ports),
        "COUNTERFOIL_HUBSPOT_TOKEN": secrets.hubspot_token,
        "COUNTERFOIL_HUBSPOT_CLIENT_SECRET": secrets.hubspot_client_secret,
        "COUNTERFOIL_HUBSPOT_PUBLIC_URL": _hubspot_trigger(ports),
        "COUNTERFOIL_HUBSPOT_PORTAL_ID": PORTAL_ID,
        "COUNTERFOIL_HUBSPOT_APP_ID": APP_ID,
        "COUNTERFOIL_STRIPE_BASE_URL": sandbox_url(ports),
        "COUNTERFOIL_STRIPE_SECRET_KEY": secrets.stripe_secret_key,
        "COUNTERFOIL_STANDARD_WEBHOOKS_SECRET": secrets.standard_webhooks_secret,
    }


def _sandbox(ports: Ports, secrets: Secrets) -> dict[str, str]:
    return {
        "SANDBOX_HUBSPOT_TOKEN": secrets.hubspot_token,
        "SANDBOX_HUBSPOT_PORTAL_ID": PORTAL_ID,
        "SANDBOX_HUBSPOT_APP_ID": APP_ID,
        "SANDBOX_STRIPE_KEY": secrets.stripe_secret_key,
        "SANDBOX_WEBHOOK_SECRET": secrets.hubspot_client_secret,
        "SANDBOX_WEBHOOK_URLS": json.dumps([_hubspot_trigger(ports)]),
    }


def _hubspot_trigger(ports: Ports) -> str:
    """The full URL that the CRM signs and posts to."""
    return gateway_url(ports) + "/triggers/hubspot"
