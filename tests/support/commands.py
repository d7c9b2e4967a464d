"""The `counterfoil` command as a person or program uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.main import application

TOKEN = "COUNTERFOIL_TOKEN"
PROCESS_SECONDS = 180


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 (any JSON document)
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def refusal(self) -> dict[str, Any]:
        """The one JSON document on standard error; nothing is on standard output then."""
        assert self.out == ""
        return dict(json.loads(self.err))


@dataclass(frozen=True)
class Counterfoil:
    """Runs commands under one environment, on behalf of `token`."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, token: str = "", stdin: bytes | None = None) -> Said:
        """In this process, with the environment replaced meanwhile."""
        hidden = dict.fromkeys(os.environ.keys() - self.environment.keys())
        environment: dict[str, str | None] = {**hidden, **self.environment, TOKEN: token or None}
        result = CliRunner().invoke(application(), list(arguments), input=stdin, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    def process(self, *arguments: str | bytes, cwd: Path, token: str = "") -> Said:
        """As a process of its own."""
        argv = [str(Path(sys.executable).with_name("counterfoil")), *arguments]
        environment = {**self.environment, **({TOKEN: token} if token else {})}
        done = subprocess.run(argv, env=environment, cwd=cwd, capture_output=True, timeout=PROCESS_SECONDS, check=False)
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def but(self, **changes: str | None) -> Counterfoil:
        """The same command under a changed environment; None takes a variable away."""
        kept = {name: text for name, text in self.environment.items() if name not in changes}
        return Counterfoil({**kept, **{name: text for name, text in changes.items() if text is not None}})
