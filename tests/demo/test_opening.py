"""What is shown while Kubernetes is being built."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from demo.opening import play_opening, save_alone
from demo.scene import HEALTHY, volumes
from prebinder.cli import main


def test_it_shows_what_kubernetes_alone_would_choose(tmp_path: Path) -> None:
    output = StringIO()
    play_opening(Console(file=output, width=80), tmp_path / "new" / "objects.json", "pvc-prebinder")
    shown = output.getvalue()
    rows = [line.split() for line in shown.splitlines()]
    notes = {volume.name: volume.note for volume in volumes()}
    chosen = {word: line for line in rows for word in line if word in notes}
    assert {name for name in chosen if notes[name] != HEALTHY}, "Kubernetes takes volumes that it should not"
    assert all(" ".join(line).endswith(notes[name]) for name, line in chosen.items())
    assert ["vault", "none"] in [row[:2] for row in rows]


def test_the_objects_are_left_for_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "objects.json"
    play_opening(Console(file=StringIO()), file, "pvc-prebinder")
    assert main(["match", "-f", str(file), "--node", "node-a1", "-o", "json"]) in {0, 3}
    pods = json.loads(capsys.readouterr().out)["pods"]
    assert [pod["pod"] for pod in pods] == [
        f"demo/{name}" for name in ("db-0", "db-1", "db-2", "cache", "vault", "reports")
    ]


def test_the_picture_in_the_readme_is_the_demo_s(tmp_path: Path) -> None:
    """It takes no cluster; `pvc-prebinder demo --svg docs/pictures/demo.svg` writes both again."""
    save_alone(tmp_path / "alone.svg")
    saved = Path(__file__).parents[2] / "docs" / "pictures" / "demo-alone.svg"
    assert saved.read_text() == (tmp_path / "alone.svg").read_text()
