"""`python -m sandbox --port P --data FILE [--webhook-url URL]...`; every setting may also come as SANDBOX_*."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sandbox.serving import bound, serve
from sandbox.settings import Settings


def _given() -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="sandbox", description="A pretended HubSpot and Stripe for demo and tests.")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, help="0 takes a free port and prints it")
    parser.add_argument("--data", type=Path, help="SQLite file, made if it is missing")
    parser.add_argument("--webhook-url", action="append", dest="webhook_urls", metavar="URL")
    return {name: value for name, value in vars(parser.parse_args()).items() if value is not None}


def main() -> int:
    try:
        settings = Settings(**_given())
        listening = bound(settings)
    except (ValidationError, OSError) as error:
        print(f"sandbox: cannot start: {error}", file=sys.stderr)
        return 2
    # uvicorn raises the signal again after its shutdown: this turns it into exit code 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
    print(f"sandbox: http://{settings.host}:{listening.getsockname()[1]}", flush=True)
    asyncio.run(serve(settings, listening))
    return 0


if __name__ == "__main__":
    sys.exit(main())
