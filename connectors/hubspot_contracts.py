"""What HubSpot promises for the two effects that we make in it, as data.

Sources: HubSpot's error-handling and search pages. It gives up on a request after 100 s (524). That a read by a unique
property sees every acknowledged write is not documented, so it is polled as an index would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from connectors.hubspot_records import HubSpotSchema
from domain.contracts import ClientKey, Contract, LookupLagged, Repeat, Sign, Upsert

LONGEST_VALUE = 255
TAKEN = Sign("CONFLICTING_UNIQUE_VALUE", (400, 409))


@dataclass(frozen=True, slots=True)
class HubSpotTimes:
    """`settle`: how long a request may run on; `lag`: how far the search index may be behind, `outage_lag` at worst."""

    settle: timedelta = timedelta(seconds=120)
    lag: timedelta = timedelta(seconds=60)
    outage_lag: timedelta = timedelta(minutes=15)
    misses: int = 3
    read_within: timedelta = timedelta(seconds=10)
    write_within: timedelta = timedelta(seconds=15)


def of_tasks(times: HubSpotTimes, schema: HubSpotSchema) -> tuple[Contract, ...]:
    """C2 by the unique property, then C4 by the search. C2 needs that property to be unique: see `HubSpot.check`."""
    name = schema.operation_key
    once = Upsert(
        times.settle,
        ClientKey(f"unique property tasks.{name}", LONGEST_VALUE, "account"),
        f"GET task by idProperty={name}, else the search",
        taken=TAKEN,
        repeat=Repeat.ID_IN_TEXT,
    )
    searched = f"search of tasks with {name} EQ, every page"
    return once, LookupLagged(times.settle, times.lag, times.outage_lag, searched, times.misses)


def of_companies(times: HubSpotTimes, schema: HubSpotSchema) -> tuple[Contract, ...]:
    """C2 by batch upsert, then C4. A repeat would put older state over newer, so the history is read first."""
    name, query = schema.company_key, f"GET company by idProperty={schema.company_key}, with the history of our key"
    upsert = Upsert(
        times.settle,
        ClientKey(f"unique property companies.{name}", LONGEST_VALUE, "account"),
        query,
        overwrites=True,
    )
    return upsert, LookupLagged(times.settle, times.lag, times.outage_lag, query, times.misses)
