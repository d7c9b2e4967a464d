"""`make drill`: every journey as it is, then what can happen at every point of it.

POINT carries one schedule through, SEED chooses others, COUNT is how many, CONTRACTS under which contracts, LANES how
many at once, KEEP a folder whose logs stay.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drill.ends import MODES, STRIPE
from drill.ground import ground, servers
from drill.lanes import Done, Drill
from drill.plan import clean, compare_names, sample, schedules
from drill.points import parsed
from drill.table import failed, lines
from drill.verdict import Verdict

COUNT, LANES, SEED = "600", "8", "1"


def main() -> int:
    """Carry everything through and print what came of it; 0 where nothing failed."""
    with _folder() as folder, servers(folder) as started, ground(started) as common:
        drill = Drill(common, int(os.environ.get("LANES", LANES)), tell=_tell)
        point = os.environ.get("POINT")
        done = drill.carry_through([parsed(point)]) if point else _everything(drill)
    verdicts = [each.verdict for each in done]
    print(*lines(verdicts), sep="\n")
    return 0 if all(each.passed for each in verdicts) else 1


@contextmanager
def _folder() -> Iterator[Path]:
    kept = os.environ.get("KEEP")
    if kept:
        Path(kept).mkdir(parents=True)
        yield Path(kept).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        yield Path(folder)


def _everything(drill: Drill) -> list[Done]:
    recorded = drill.carry_through(clean(_contracts()))
    compare_names(recorded)
    count = int(os.environ.get("COUNT", COUNT)) - len(recorded)
    return recorded + drill.carry_through(sample(schedules(recorded), count, os.environ.get("SEED", SEED)))


def _contracts() -> list[str]:
    """All, or Stripe's and those named: what does not depend on the contract is drilled under the first."""
    named = os.environ.get("CONTRACTS", "").split(",")
    return [mode for mode in MODES if named == [""] or mode == STRIPE or mode in named]


def _tell(done: Done) -> None:
    verdict: Verdict = done.verdict
    print(f"{'ok' if verdict.passed else 'FAILED'} {verdict.schedule}", flush=True)
    if not verdict.passed:
        print(*failed(verdict), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
