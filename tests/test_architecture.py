"""The layout's promises: who imports whom, what a workflow's import loads, how large things grow."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest
from importlinter import cli as import_linter

CHECKOUT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["importlinter"]["root_packages"]
CODE_LINES_LIMIT = 300
# Third-party names that the packages with a narrow purpose may import; the rest of the packages need more.
THIRD_PARTY = {
    "domain": {"pydantic", "pydantic_core", "rfc8785", "stdnum"},
    "workflows": {"pydantic", "temporalio"},
    "activities": {"pydantic", "temporalio"},
    "connectors": {"httpcore", "httpx", "pydantic"},
    "operating": {"opentelemetry", "prometheus_client", "pythonjsonlogger", "temporalio"},
    "business_store": {"alembic", "psycopg", "psycopg_pool", "pydantic", "sqlalchemy"},
    "stack": {"psutil", "psycopg", "pydantic", "pydantic_settings", "settings"},
}
NEVER_LOADED_BY_WORKFLOWS = {"sqlalchemy", "psycopg", "httpx", "business_store", "connectors"}


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert import_linter.lint_imports(config_filename="pyproject.toml") == import_linter.EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("package", THIRD_PARTY)
def test_third_party_imports_are_few(package: str) -> None:
    assert set(_third_party(package)) <= THIRD_PARTY[package]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_installed(package: str) -> None:
    assert package in PROJECT["tool"]["setuptools"]["packages"]


def test_importing_workflows_loads_no_store() -> None:
    modules = ", ".join(
        ["workflows", *(f"workflows.{path.stem}" for path in (CHECKOUT / "workflows").glob("[!_]*.py"))]
    )
    look = f"import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", look], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert not NEVER_LOADED_BY_WORKFLOWS & set(loaded.stdout.split())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_a_package_is_a_package(package: str) -> None:
    bare = {path.parent for path in _modules(package) if not (path.parent / "__init__.py").exists()}
    assert not bare


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_stay_readable(package: str) -> None:
    sizes = {str(path.relative_to(CHECKOUT)): _code_lines(path) for path in _modules(package)}
    assert {name: size for name, size in sizes.items() if size > CODE_LINES_LIMIT} == {}


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, exclude_type_checking_imports=True)


def _third_party(package: str) -> Iterator[str]:
    ours = {package, *_graph().find_descendants(package)}
    for imported in set().union(*(_graph().find_modules_directly_imported_by(module) for module in ours)):
        top = imported.split(".")[0]
        if top not in sys.stdlib_module_names and top not in PACKAGES:
            yield top


def _modules(package: str) -> list[Path]:
    return sorted((CHECKOUT / package).rglob("*.py"))


def _code_lines(path: Path) -> int:
    """Without blanks, comments and docstrings."""
    text = path.read_text()
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    return len(written - set(_docstring_lines(ast.parse(text))))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
