"""`python -m gateway`: serve until told to stop."""

from __future__ import annotations

import logging
import sys

import uvicorn

from composition import Parts
from gateway.app import application
from settings import SettingsError, load_settings

DRAIN_SECONDS = 10


def main() -> None:
    """Run the gateway of this environment."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = load_settings()
    except SettingsError as missing:
        sys.exit(f"gateway: {missing}")
    uvicorn.run(
        application(Parts(settings)),
        host=settings.gateway_host,
        port=settings.gateway_port,
        access_log=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


if __name__ == "__main__":
    main()
