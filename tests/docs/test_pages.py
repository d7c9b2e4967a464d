"""README and docs: every command exists, every link leads somewhere, and nothing outside the repository is needed."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML
from typer.exceptions import TyperException
from typer.main import get_command

from cli.main import application

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    ((?:docker|deploy/|cp )[^\n]*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)\)")
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.:/-])/(?:home|root|work|Users|mnt|opt|srv)\b[\w./-]*")
CASE = re.compile(r"_(c[0-9]{2}|i[0-9]{1,2})_")
COMPOSE_VERBS = ("up", "down", "exec", "run", "ps", "build", "stop", "config")
SERVICES = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
COUNTERFOIL = get_command(application())


def commands(page: Path) -> Iterator[list[str]]:
    for block in SHELL.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words
    for line in INDENTED.findall(outside_fences(page.read_text())):
        yield shlex.split(line)


def outside_fences(text: str) -> str:
    return "".join(text.split("```")[::2])


def inline(page: Path) -> Iterator[list[str]]:
    """Commands within a sentence, which leave arguments out."""
    for ticked in re.findall(r"`((?:docker compose [^`]*)?counterfoil [a-z][^`]*)`", outside_fences(page.read_text())):
        yield shlex.split(ticked)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


ALL = [pytest.param(words, id=f"{named(page)}: {' '.join(words)}") for page in PAGES for words in commands(page)]


@pytest.mark.parametrize("words", ALL)
def test_every_command_exists(words: list[str]) -> None:
    program, *rest = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    match Path(program).name:
        case "make":
            assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case "counterfoil":
            parsed(rest)
        case "python":
            assert rest[0] == "-m"
            assert importlib.util.find_spec(rest[1])
        case "export":
            assert program == "export"
        case "docker":
            compose(rest)
        case _:
            assert (ROOT / program).exists() or program == "cp", f"what is {program}?"


def compose(words: list[str]) -> None:
    """Of several joined by && each; what runs `counterfoil` in a service is parsed, and the service is there."""
    for part in " ".join(words).split("&& docker "):
        before, found, command = part.partition(" counterfoil ")
        verb = next((word for word in before.split() if word in COMPOSE_VERBS), "")
        assert before.startswith("compose ")
        assert verb
        if verb in ("exec", "run"):
            services = [word for word in before.split(f" {verb} ")[1].split() if not word.startswith("-")]
            assert services[0] in SERVICES
        if found and "pg_" not in before:
            parsed(command.split())


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=f"{named(page)}: {' '.join(words)}") for page in PAGES for words in inline(page)]
)
def test_every_command_within_a_sentence_exists(words: list[str]) -> None:
    command = COUNTERFOIL
    for word in words[words.index("counterfoil") + 1 :]:
        inner = getattr(command, "commands", None)
        if inner is None:
            break
        command = inner[word]


def parsed(words: list[str]) -> None:
    """Subcommand, options and the number of arguments, as the real parser sees them."""
    command, context = COUNTERFOIL, typer.Context(COUNTERFOIL)
    while (inner := getattr(command, "commands", None)) is not None:
        command = inner[words[0]]
        context = typer.Context(command, parent=context)
        words = words[1:]
    given, left, _ = command.make_parser(context).parse_args(list(words))
    assert not left
    missing = [each.name for each in command.get_params(context) if each.required and given.get(each.name) is None]
    assert not missing


@pytest.mark.parametrize("wrong", ["runs --colour", "actor", "approve RUN", "fly RUN", "show RUN RUN"])
def test_a_command_that_does_not_exist_is_noticed(wrong: str) -> None:
    with pytest.raises((AssertionError, LookupError, TyperException)):
        parsed(wrong.split())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files_of_this_repository(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    targets = [(page.parent / link).resolve() for link in links]
    assert [str(target) for target in targets if not target.exists() or not target.is_relative_to(ROOT)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_names_a_folder_of_somebodys_machine(page: Path) -> None:
    assert SOMEBODYS_FOLDER.findall(page.read_text()) == []


def test_the_layout_is_what_is_there() -> None:
    block = README.read_text().split("## Layout")[1].split("```")[1]
    paths = [word for line in block.splitlines() for word in line.split()[:1]] + ["tests/"]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_case_and_invariant_in_tests_is_explained() -> None:
    told = (ROOT / "docs" / "invariants.md").read_text()
    used = {found.upper() for path in (ROOT / "tests").rglob("test_*.py") for found in CASE.findall(path.read_text())}
    assert {number for number in used if f"| {number} |" not in told} == set()
