"""Temporal's development server as a child of our own, on a database file that survives any end."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stack.child import Child, Command, Files
from stack.ports import LOOPBACK, listening, require_free

NAMESPACE = "default"
SEARCH_ATTRIBUTES = {
    "BusinessState": "Keyword",
    "BusinessKey": "Keyword",
    "Process": "Keyword",
    "ReasonCode": "Keyword",
    "NextOwner": "Keyword",
    "InputVersion": "Int",
    "BusinessDeadline": "Datetime",
}
# 26 onboarding runs a second against 9 with SQLite's defaults; a power cut may lose the engine's last moments,
# which the sweep repairs from the store.
PRAGMAS = ("journal_mode=wal", "synchronous=normal")
# The operator's own profiles and TEMPORAL_… variables must not reach a server of ours.
ISOLATED = ("--disable-config-file", "--disable-config-env")
ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class TemporalSettings:
    """`ui_port` None serves no UI; `database` None keeps everything in memory."""

    port: int
    ui_port: int | None = None
    database: Path | None = None
    port_setting: str = "COUNTERFOIL_TEMPORAL_PORT"
    ui_port_setting: str = "COUNTERFOIL_TEMPORAL_UI_PORT"


class EmbeddedTemporal:
    """Start, stop and restart after any kind of end. Raises PortTaken, ChildNotReady."""

    def __init__(self, settings: TemporalSettings, files: Files) -> None:
        self.settings = settings
        self.address = f"{LOOPBACK}:{settings.port}"
        self.child = Child("temporal", self._prepare, files)
        self.child.ready = self._ready

    def start(self) -> None:
        self.child.start()

    def stop(self) -> None:
        self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def _prepare(self) -> Command:
        require_free(self.settings.port, self.settings.port_setting)
        if self.settings.ui_port:
            require_free(self.settings.ui_port, self.settings.ui_port_setting)
        if self.settings.database:
            self.settings.database.parent.mkdir(parents=True, exist_ok=True)
        return Command((temporal_program(), *server_arguments(self.settings)), _environment(), cwd=Path("/"))

    def _ready(self) -> bool:
        """By a real answer of the namespace, and only when our search attributes can be used."""
        return listening(self.settings.port) and set(SEARCH_ATTRIBUTES) <= self._search_attributes()

    def _search_attributes(self) -> set[str]:
        asked = ("operator", "search-attribute", "list", "--address", self.address, "--namespace", NAMESPACE)
        try:
            answer = subprocess.run(
                (temporal_program(), *asked, "--output", "json", *ISOLATED),
                env=_environment(),
                timeout=ANSWER_SECONDS,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return set()
        return set() if answer.returncode else set(json.loads(answer.stdout)["customAttributes"])


def temporal_program() -> str:
    return str(Path(sys.executable).with_name("temporal"))


def server_arguments(settings: TemporalSettings) -> list[str]:
    """What `temporal` is told: the same for `up`, the demo and the tests, apart from file and UI."""
    ui = ["--ui-port", str(settings.ui_port), "--ui-disable-news-fetch"] if settings.ui_port else ["--headless"]
    file = ["--db-filename", str(settings.database.absolute())] if settings.database else []
    pragmas = [word for pragma in PRAGMAS for word in ("--sqlite-pragma", pragma)] if file else []
    attributes = [word for name, kind in SEARCH_ATTRIBUTES.items() for word in ("--search-attribute", f"{name}={kind}")]
    address = ["--ip", LOOPBACK, "--port", str(settings.port)]
    return ["server", "start-dev", *address, *ui, *file, *pragmas, *attributes, "--log-level", "warn", *ISOLATED]


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/"}
