"""The real worker process with a Stripe that promises nothing but its callbacks (contract C5)."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta

import worker
from connectors.stripe import Stripe
from domain.contracts import Contract, SavedId
from settings import load_settings


def callbacks_only(self: Stripe, operation: str) -> tuple[Contract, ...]:
    """Its key is sent as before; nothing may rest on it."""
    within = timedelta(seconds=float(os.environ["CALLBACK_WITHIN"]))
    return (SavedId(within, "id of the answer", "metadata.operation_key of account.updated"),)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    Stripe.contracts = callbacks_only  # type: ignore[method-assign]
    asyncio.run(worker.main(load_settings()))
