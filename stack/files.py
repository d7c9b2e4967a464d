"""Where the stack keeps things, and files that only their owner may read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Paths:
    """Everything lives under one folder, `.counterfoil/` unless COUNTERFOIL_DATA says otherwise."""

    root: Path

    @property
    def secrets(self) -> Path:
        return self.root / "secrets.env"

    @property
    def environment(self) -> Path:
        return self.root / "env"

    @property
    def temporal_profile(self) -> Path:
        return self.root / "temporal.toml"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def temporal(self) -> Path:
        return self.root / "temporal.sqlite"

    @property
    def sandbox(self) -> Path:
        return self.root / "sandbox.sqlite"


def write_private(path: Path, text: str) -> None:
    """All or nothing, and never readable by others, not even for a moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def write_variables(path: Path, values: Mapping[str, str]) -> None:
    write_private(path, "".join(f"{name}={value}\n" for name, value in values.items()))


def read_variables(path: Path) -> dict[str, str]:
    """`NAME=value` lines, nothing quoted; empty when there is no such file."""
    if not path.exists():
        return {}
    lines = (line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)
