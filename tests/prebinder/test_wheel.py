"""What is installed: the wheel that the image and every user get."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


def test_the_wheel_has_the_page_of_every_code(installed: Path) -> None:
    pages = {page.name for page in (ROOT / "docs" / "causes").glob("*.md")}
    assert {page.name for page in (installed / "why" / "cause_pages").iterdir()} == pages


def test_an_installed_program_explains_codes(installed: Path) -> None:
    """From the wheel's own folder: the source tree is out of reach."""
    code = "import sys; from prebinder.cli import main; sys.exit(main(['explain', 'TopologyConflict']))"
    command = [sys.executable, "-c", code]
    explained = subprocess.run(command, cwd=installed, check=True, capture_output=True, text=True)
    assert explained.stdout.startswith("# TopologyConflict\n")
