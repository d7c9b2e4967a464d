"""docker-compose.yml as Compose would read it, and its services as processes of this machine."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tied import tied

from stack.ports import free_port
from stack.postgres_binaries import binaries

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<rule>:-|:\?)(?P<text>[^}]*))?\})")


class Missing(Exception):
    """A variable without a default is not set, at which Compose refuses to start."""


def variables(path: Path) -> dict[str, str]:
    """The set variables of an `.env` file."""
    pairs = [line.partition("=") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name: text for name, _, text in pairs}


def load(given: Mapping[str, str]) -> dict[str, Any]:
    """The whole file with its variables filled in. Raises Missing."""
    return dict(filled(YAML(typ="safe").load(FILE.read_text()), given))


def filled(node: Any, given: Mapping[str, str]) -> Any:  # noqa: ANN401 (any YAML value)
    if isinstance(node, dict):
        return {key: filled(value, given) for key, value in node.items()}
    if isinstance(node, list):
        return [filled(value, given) for value in node]
    return VARIABLE.sub(lambda found: _value(found, given), node) if isinstance(node, str) else node


def _value(found: re.Match[str], given: Mapping[str, str]) -> str:
    name, rule, text = found["name"], found["rule"], found["text"]
    if name is None:
        return "$"
    if rule == ":?" and not given.get(name):
        raise Missing(f"{name}: {text}")
    return given.get(name) or (text if rule == ":-" else "")


def seconds(duration: str) -> int:
    """Of `90s` or `2m`."""
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


DEMO = variables(ROOT / "deploy" / "demo.env")


def make_secrets(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs deploy/secrets.sh."""
    command = ["sh", str(ROOT / "deploy" / "secrets.sh"), *words]
    environment = {"PATH": os.defpath, "COUNTERFOIL_SECRETS": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@dataclass
class ByHand:
    """Runs services as their containers would, with `places` in place of what only exists among containers.

    Every port that a service is told gets a free one of this machine, the same one in its healthcheck.
    """

    services: Mapping[str, Any]
    places: Mapping[str, str]
    logs: Path
    ports: dict[tuple[str, str], str] = field(default_factory=dict)

    def port(self, service: str, inside: str) -> str:
        return self.ports.setdefault((service, inside), str(free_port()))

    def argv(self, service: str) -> list[str]:
        described = self.services[service]
        return [self._placed(word) for word in (*described.get("entrypoint", ()), *described.get("command", ()))]

    def environment(self, service: str) -> dict[str, str]:
        told = self.services[service].get("environment", {})
        ports = {name: self.port(service, str(text)) for name, text in told.items() if _ours(name)}
        programs = (Path(sys.executable).parent, binaries(None), os.defpath)
        here = {"PATH": os.pathsep.join(map(str, programs)), "HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"}
        return {**here, **{name: self._placed(str(text)) for name, text in told.items()}, **ports}

    def _placed(self, text: str) -> str:
        # In one pass, so that no port that was put in is taken for one that is to be replaced.
        return re.sub("|".join(map(re.escape, self.places)), lambda found: self.places[found[0]], text)

    def job(self, service: str) -> subprocess.CompletedProcess[str]:
        """A service that runs to its end."""
        return self.inside(service, *self.argv(service))

    def check(self, service: str) -> subprocess.CompletedProcess[str]:
        """Its healthcheck."""
        kind, *words = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        argv = [self.ports.get((service, word)) or self._placed(word) for word in words]
        return self.inside(service, *argv)

    def inside(self, service: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """What `docker compose exec` would run there."""
        environment = self.environment(service)
        return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=False)

    @contextmanager
    def running(self, service: str, number: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        """A service that stays; killed at the end if it still runs."""
        with (self.logs / f"{service}-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                tied(self.argv(service)), cwd=ROOT, env=self.environment(service), stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()


def _ours(name: str) -> bool:
    return name.startswith("COUNTERFOIL_") and name.endswith("_PORT")


def copied(dockerfile: str) -> set[str]:
    """What is copied from the checkout, by COPY lines without --from."""
    lines = [shlex.split(line) for line in dockerfile.splitlines() if line.startswith("COPY ")]
    return {source for line in lines if not line[1].startswith("--") for source in line[1:-1]}
