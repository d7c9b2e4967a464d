"""`make submit`: a company is made and submitted in the sandbox's CRM of a running `make up`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import httpx

from demo.doors import Doors, opened
from demo.partner import AMENDED_IBAN, AMENDER, MANAGER, seed
from demo.telling import Broken, eventually
from stack.files import Paths, read_variables

RUN_SECONDS = 30.0


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    environment = read_variables(Paths(Path(os.environ.get("COUNTERFOIL_DATA", ".counterfoil"))).environment)
    if not environment:
        return _said("no stack runs here: make up (in another shell), or set COUNTERFOIL_DATA")
    with opened(environment) as doors:
        if not doors.sandbox.healthy():
            return _said("the CRM of this stack is not the sandbox, or it is away")
        try:
            return amend(doors, chosen.amend) if chosen.amend else submit(doors)
        except (Broken, httpx.HTTPError) as problem:
            return _said(str(problem))


def submit(doors: Doors) -> int:
    company = seed(doors.sandbox).company_id
    doors.change_company(company, MANAGER, {"onboarding_stage": "submitted"})
    key = f"{doors.environment['COUNTERFOIL_HUBSPOT_PORTAL_ID']}-0-2-{company}"
    run = eventually(lambda: doors.run_about(key), "the event starts a run", RUN_SECONDS)
    print(f"CRM user {MANAGER} submitted company {company}: {run}\n\n{_next(run, company)}")
    return 0


def amend(doors: Doors, company: str) -> int:
    doors.change_company(company, AMENDER, {"iban": AMENDED_IBAN})
    print(f"CRM user {AMENDER} changed the bank details of company {company}")
    return 0


def _next(run: str, company: str) -> str:
    lines = (
        'counterfoil actor add sabine --name "Sabine Supervisor"',
        "counterfoil actor grant sabine supervisor",
        "counterfoil token issue sabine    # then: export COUNTERFOIL_TOKEN=<secret>",
        f"counterfoil show {run}    # ends with the commands that are permitted now",
        f"counterfoil events {run}",
        f"python -m demo.submit --amend {company}    # another user changes the bank details",
    )
    return "\n".join(["Next:", *(f"  .venv/bin/{line}" for line in lines)])


def _said(problem: str) -> int:
    print(problem, file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo.submit", description=__doc__)
    parser.add_argument("--amend", metavar="COMPANY", help="change the bank details of this company instead")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
