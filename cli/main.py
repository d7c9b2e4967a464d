"""Entry point of the `counterfoil` command."""

from __future__ import annotations

import io
import logging
import sys

import typer

from cli import actors, bulk, credentials, database, deciding, doctor, erasing, operating, reading, triggers
from cli.failures import CANNOT_BEGIN

HELP = """Start, inspect, decide and repair business runs.

Every command takes --json. Exit codes: 0 done, 1 refused or found wanting, 2 wrong use or settings.

Settings come from COUNTERFOIL_… variables, or from the stack that `make up` runs in this folder. Decisions, resolutions
and starts are made by the owner of the API token in COUNTERFOIL_TOKEN or --token-file.
"""


def application() -> typer.Typer:
    """All commands."""
    app = typer.Typer(
        help=HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for part in (reading, deciding, operating, bulk, triggers, doctor, credentials, actors, database, erasing):
        part.register(app)
    return app


def main() -> None:
    """Run the command of this process."""
    logging.basicConfig(level=logging.WARNING, format="counterfoil: %(message)s", stream=sys.stderr)
    _print_anything()
    _refuse_undecodable(sys.argv)
    application()(prog_name="counterfoil")


def _print_anything() -> None:
    """A terminal that cannot show a letter gets it written out rather than a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refuse_undecodable(arguments: list[str]) -> None:
    """Bytes that are no text in this locale would be recorded as something that nobody wrote."""
    for number, argument in enumerate(arguments):
        try:
            argument.encode()
        except UnicodeEncodeError:
            sys.stderr.write(f"counterfoil: argument {number} is not text in this locale's encoding\n")
            sys.exit(CANNOT_BEGIN)


if __name__ == "__main__":
    main()
