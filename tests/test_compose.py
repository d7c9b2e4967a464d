"""docker-compose.yml, the image and the secrets as they are written; test_compose_running.py runs them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compose import DEMO, FILE, ROOT, Missing, copied, load, make_secrets, seconds, variables
from pydantic import SecretStr

from settings import Settings, SettingsError, load_settings

OURS = {"migrate", "erase", "gateway", "worker", "sandbox"}
JOBS = {"store-roles", "migrate", "erase", "temporal-schema", "temporal-namespace"}
PUBLISHED = {"gateway", "temporal-ui", "sandbox"}
# They start the embedded servers, or measure them, and no container does.
NOT_IN_THE_IMAGE = {"stack", "demo", "bench", "drill"}


# ── as written ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return load(DEMO)


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return dict(compose["services"])


def test_follows_the_compose_specification() -> None:
    program = str(Path(sys.executable).with_name("check-jsonschema"))
    checked = subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", str(FILE)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_without_its_variables_it_refuses_to_start() -> None:
    with pytest.raises(Missing):
        load({})


def test_example_names_every_variable_that_must_be_set_and_sets_none() -> None:
    demanded = set(re.findall(r"\$\{(\w+):\?", FILE.read_text()))
    assert variables(ROOT / ".env.example") == dict.fromkeys(demanded, "")


def test_example_names_every_variable() -> None:
    known = set(re.findall(r"\$\{(\w+)", FILE.read_text()))
    named = set(re.findall(r"^(?:# )?(\w+)=", (ROOT / ".env.example").read_text(), re.M))
    assert known - named <= {"SANDBOX_PORT", "COUNTERFOIL_HUBSPOT_BASE_URL", "COUNTERFOIL_STRIPE_BASE_URL"}


def test_images_are_pinned(services: dict[str, Any]) -> None:
    images = {service["image"] for name, service in services.items() if name not in OURS}
    assert images
    assert [image for image in images if not re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-\w+)?", image)] == []


def test_server_and_schema_tools_are_of_one_version(services: dict[str, Any]) -> None:
    versions = {services[name]["image"].split(":")[1] for name in ("temporal", "temporal-schema", "temporal-namespace")}
    assert len(versions) == 1


def test_no_service_holds_more_rights_than_it_needs(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only") is True or name == "temporal-ui"
        assert not {"privileged", "cap_add", "container_name"} & service.keys(), name


def test_databases_are_reached_inside_only(compose: dict[str, Any], services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "ports" in service} == PUBLISHED
    for name in ("store-db", "temporal-db"):
        assert all(compose["networks"][network]["internal"] for network in services[name]["networks"])


def test_published_ports_are_on_loopback_unless_told_otherwise(services: dict[str, Any]) -> None:
    for name in PUBLISHED:
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])


def test_workers_can_be_scaled(services: dict[str, Any]) -> None:
    assert not {"ports", "container_name", "hostname", "volumes"} & services["worker"].keys()


def test_what_stays_is_watched_and_started_again(services: dict[str, Any]) -> None:
    for name, service in services.items():
        stays = name not in JOBS
        assert ("healthcheck" in service) == stays, name
        assert service["restart"] == ("unless-stopped" if stays else "no"), name


def test_dependencies_wait_for_health_or_completion(services: dict[str, Any]) -> None:
    for service in services.values():
        for awaited, how in service.get("depends_on", {}).items():
            assert how["condition"] == ("service_completed_successfully" if awaited in JOBS else "service_healthy")


def test_worker_is_given_time_for_its_longest_send(services: dict[str, Any]) -> None:
    default = {name: Settings.model_fields[name].default for name in ("send_before", "send_timeout")}
    assert seconds(services["worker"]["stop_grace_period"]) > default["send_before"] + 2 * default["send_timeout"]


def test_secrets_come_by_file_only(compose: dict[str, Any], services: dict[str, Any]) -> None:
    told = {name for service in services.values() for name in service.get("environment", {})}
    secret = re.compile(r"PASSWORD|TOKEN|SECRET|_KEY|DATABASE_URL")
    places = {"POSTGRES_PASSWORD_FILE", "COUNTERFOIL_SECRETS_DIR", "SECRETS"}
    assert {name for name in told if secret.search(name)} == places
    assert all(set(described) == {"file"} for described in compose["secrets"].values())


def test_secret_files_are_named_like_settings(compose: dict[str, Any]) -> None:
    named = {name.removeprefix("counterfoil_") for name in compose["secrets"] if name.startswith("counterfoil_")}
    assert named <= Settings.model_fields.keys()


# ── the image ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def test_image_holds_every_package(dockerfile: str) -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name.split(".")[0] for name in setuptools["packages"]} - NOT_IN_THE_IMAGE
    modules = {f"{name}.py" for name in setuptools["py-modules"]}
    scripts = {"requirements.runtime.lock", "deploy/answers.py"}
    assert copied(dockerfile) == packages | modules | scripts


def test_build_sees_nothing_but_what_is_copied(dockerfile: str) -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line[0] == "!"} == copied(dockerfile)


def test_image_runs_as_nobody_in_particular(dockerfile: str) -> None:
    users = re.findall(r"^USER (.*)$", dockerfile, re.M)
    assert users == ["10001:10001"]
    assert dockerfile.rindex("USER") > dockerfile.rindex("RUN")
    assert not re.search(r"^ADD |^ARG .*(SECRET|TOKEN|PASSWORD)", dockerfile, re.M)


def test_runtime_lock_is_a_part_of_the_lock() -> None:
    def pinned(name: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+|sha256:\w+", (ROOT / name).read_text(), re.M))

    assert pinned("requirements.runtime.lock") < pinned("requirements.lock")


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_secrets_are_made_for_every_mount(compose: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert make_secrets(folder, "demo").returncode == 0
    assert {path.name for path in folder.iterdir()} == set(compose["secrets"])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}


def test_secrets_that_only_the_owner_knows_are_asked_for(tmp_path: Path) -> None:
    refused = make_secrets(tmp_path)
    assert refused.returncode == 1
    assert len(re.findall("missing: .*counterfoil_", refused.stderr)) == 4


def test_secrets_that_exist_are_kept(tmp_path: Path) -> None:
    (tmp_path / "store_app_password").write_text("as it was")
    make_secrets(tmp_path, "demo")
    assert (tmp_path / "store_app_password").read_text() == "as it was"
    assert ":as it was@" in (tmp_path / "counterfoil_database_url").read_text()


@pytest.fixture
def from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("COUNTERFOIL_")]:
        monkeypatch.delenv(name)
    make_secrets(tmp_path, "demo")
    for name, text in DEMO.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("COUNTERFOIL_SECRETS_DIR", str(tmp_path))
    return tmp_path


def test_settings_are_read_from_secret_files(from_files: Path) -> None:
    token = (from_files / "counterfoil_hubspot_token").read_text()
    assert load_settings().hubspot_token == SecretStr(token)


def test_a_variable_wins_over_its_secret_file(from_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_HUBSPOT_TOKEN", "from-the-environment")
    assert load_settings().hubspot_token == SecretStr("from-the-environment")


def test_a_missing_secret_file_is_named(from_files: Path) -> None:
    (from_files / "counterfoil_stripe_secret_key").unlink()
    with pytest.raises(SettingsError, match="COUNTERFOIL_STRIPE_SECRET_KEY"):
        load_settings()


def test_a_missing_secrets_folder_is_named(from_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRETS_DIR", str(from_files / "nowhere"))
    with pytest.raises(SettingsError, match="COUNTERFOIL_SECRETS_DIR"):
        load_settings()


# ── the manual ────────────────────────────────────────────────────────────────────────────────────────────────────

DEPLOYING = (ROOT / "docs" / "deploying.md").read_text()


def test_manual_names_services_that_exist(services: dict[str, Any]) -> None:
    named = set(re.findall(r"docker compose (?:exec|run|stop) (?:-\S+ )*([\w-]+)", DEPLOYING))
    assert {"store-db", "store-roles", "migrate", "gateway"} <= named <= services.keys()
    assert set(re.findall(r"`([\w-]+)`", DEPLOYING)) >= JOBS


def test_manual_names_commands_that_exist() -> None:
    program = str(Path(sys.executable).with_name("counterfoil"))
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"counterfoil ([a-z]+)", DEPLOYING))
    assert {"doctor", "audit", "resume"} <= named <= set(re.findall(r"^  ([a-z-]+) ", shown, re.M))
