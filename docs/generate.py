"""Write the generated parts of the pages: `make docs`. With `--check` nothing is written; stale pages are named.

A part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`; everything around it is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from composition import hubspot_times, stripe_times
from connectors.hubspot_contracts import of_companies, of_tasks
from connectors.hubspot_records import HubSpotSchema
from connectors.stripe_contracts import of_accounts
from domain.contracts import ClientKey, Contract, Sign
from domain.resolutions import MEANING
from domain.states import MOVES, ActorKind, RunState
from domain.wording import EXPLAINED, SHOWN_AS
from drill.practice_contracts import MODES, PracticeTimes
from settings import Settings

ROOT = Path(__file__).parents[1]
PART = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end: \2 -->\n)", re.DOTALL)
UNITS = {
    "body_limit": "bytes",
    "database_pool": "connections",
    "retry_limit": "tries",
    "activity_threads": "threads",
    "cached_runs": "executions",
}
TUTORIALS = ROOT / "tests" / "tutorials"


def states() -> Iterator[str]:
    """Every state as it is shown."""
    yield from ("| state | shown as | what it means |", "|---|---|---|")
    yield from (f"| `{state}` | {SHOWN_AS[state]} | {EXPLAINED[state]} |" for state in RunState)


def moves() -> Iterator[str]:
    """The move table, by state and by whom."""
    yield from ("| from | by | to |", "|---|---|---|")
    for state in RunState:
        for kind in ActorKind:
            following = sorted(after for who, before, after in MOVES if (who, before) == (kind, state) != (kind, after))
            if following:
                yield f"| `{state}` | {kind} | {', '.join(f'`{after}`' for after in following)} |"


def actions() -> Iterator[str]:
    """What an operator can answer, in the words of `counterfoil resolve --help`."""
    yield from ("| action | says |", "|---|---|")
    yield from (f"| `{action}` | {meaning} |" for action, meaning in MEANING.items())


def contracts() -> Iterator[str]:
    """What every operation of every connector declares, in its order, with the times of the settings' defaults."""
    plain, schema = Settings.model_construct(), HubSpotSchema()
    yield from _declared("Stripe `POST /v1/accounts`", of_accounts(stripe_times(plain)))
    yield from _declared("HubSpot task", of_tasks(hubspot_times(plain), schema))
    yield from _declared("HubSpot company by unique key", of_companies(hubspot_times(plain), schema))


def modes() -> Iterator[str]:
    """What every mode of the practice provider declares."""
    for mode, declared in MODES.items():
        yield from _declared(f"`{mode}`", declared(PracticeTimes()))


def _declared(operation: str, declared: Iterable[Contract]) -> Iterator[str]:
    yield from (f"**{operation}**", "")
    for number, contract in enumerate(declared, 1):
        given = ((field.name.replace("_", " "), getattr(contract, field.name)) for field in fields(contract))
        told = "; ".join(f"{name}: {_parameter(value)}" for name, value in given)
        yield f"{number}. {type(contract).__name__}" + (f". {told}" if told else "")
    yield ""


def _parameter(value: object) -> str:
    match value:
        case ClientKey():
            return f"{value.place}, at most {value.longest} characters, one key within one {value.scope}"
        case Sign():
            return f"{' or '.join(map(str, value.statuses))} `{value.code}`"
        case timedelta():
            return _duration(value)
        case bool():
            return "yes" if value else "no"
        case None:
            return "nothing"
        case _:
            return str(value).replace("_", " ") if isinstance(value, StrEnum) else str(value)


def _duration(span: timedelta) -> str:
    """In the largest unit that says it in whole numbers; a day is 24 h."""
    seconds = int(span.total_seconds())
    units = (("d", 86400, 2 * 86400), ("h", 3600, 3600), ("min", 60, 60))
    fitting = (f"{seconds // size} {unit}" for unit, size, least in units if seconds >= least and seconds % size == 0)
    return next(fitting, f"{seconds} s")


def settings() -> Iterator[str]:
    """Every setting, in the order in which they are declared."""
    yield from ("| variable | default | unit | meaning |", "|---|---|---|---|")
    for name, field in Settings.model_fields.items():
        meaning = f"**Secret.** {field.description}" if _secret(field) else field.description
        yield f"| `COUNTERFOIL_{name.upper()}` | {_default(field)} | {_unit(name, field)} | {meaning} |"


def _secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *get_args(field.annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    return "none" if field.default is None else f"`{field.default}`"


def _unit(name: str, field: FieldInfo) -> str:
    """Raises KeyError for a number whose unit nobody gave."""
    kind = next(iter({field.annotation, *get_args(field.annotation)} & {float, int}), None)
    if kind is float:
        return "seconds"
    if kind is int:
        return "port" if name.endswith("_port") else UNITS[name]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    return "URL" if name.endswith("_url") else "text"


def included(name: str) -> Callable[[], Iterator[str]]:
    """A tested file, whole."""

    def lines() -> Iterator[str]:
        yield from ("```python", *(TUTORIALS / name).read_text().splitlines(), "```")

    return lines


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "states": states,
    "moves": moves,
    "actions": actions,
    "contracts": contracts,
    "modes": modes,
    "settings": settings,
    "supplier_notice.py": included("supplier_notice.py"),
    "supplier_notice_workflow.py": included("supplier_notice_workflow.py"),
    "badge_office.py": included("badge_office.py"),
}


def written(page: str) -> str:
    """The page with every generated part as it is now. Raises KeyError for a part of an unknown name."""
    return PART.sub(lambda found: found[1] + "".join(f"{line}\n" for line in PARTS[found[2]]()) + found[3], page)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name stale pages and exit with 1")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs", help="where the pages are")
    chosen = parser.parse_args(arguments)
    pages = {path: path.read_text() for path in sorted(chosen.folder.glob("*.md"))}
    stale = {path: written(text) for path, text in pages.items() if written(text) != text}
    if not chosen.check:
        for path, text in stale.items():
            path.write_text(text)
    for path in stale:
        print(f"{path.name}: {'stale, run make docs' if chosen.check else 'written'}")
    return 1 if stale and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
