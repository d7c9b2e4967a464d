"""What the pages take from the code is what the code says: `make docs` would change nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import main as generate
from settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for page in DOCS.glob("*.md"):
        shutil.copy(page, tmp_path)
    return tmp_path


def test_the_committed_pages_are_the_generated_ones() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("settings.md", "`COUNTERFOIL_BODY_LIMIT`"),
        ("states.md", "| `needs_operator` | operator |"),
        ("runbook.md", "| `write_off` |"),
        ("adding-a-process.md", "class SupplierNotice"),
        ("adding-a-connector.md", "class BadgeOffice"),
    ],
)
def test_a_stale_page_is_named_and_mended(
    copied: Path, page: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh = (copied / page).read_text()
    (copied / page).write_text(fresh.replace(text, "something else", 1))
    assert generate(["--check", "--folder", str(copied)]) == 1
    assert capsys.readouterr().out.split(":")[0] == page
    assert generate(["--folder", str(copied)]) == 0
    assert (copied / page).read_text() == fresh


@pytest.mark.parametrize(
    ("files", "fewer_than"), [(("supplier_notice.py", "supplier_notice_workflow.py"), 60), (("badge_office.py",), 150)]
)
def test_the_tutorials_are_as_short_as_the_readme_says(files: tuple[str, ...], fewer_than: int) -> None:
    text = "".join((ROOT / "tests" / "tutorials" / name).read_text() for name in files)
    assert len([line for line in text.splitlines() if line.strip()]) < fewer_than


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    assert f"](docs/{page.name})" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_row(name: str) -> None:
    assert (DOCS / "settings.md").read_text().count(f"| `COUNTERFOIL_{name.upper()}` |") == 1
