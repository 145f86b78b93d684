"""`explain`: the page of a code on a terminal and in a pipe, the list of all, and what `why` says about it."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from prebinder import cli
from prebinder.errors import ExitCode
from why.explain.cause_pages import meanings, page_of
from why.rendering.markdown import print_page

UNKNOWN_CLASS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: web}
spec: {storageClassName: fsat, resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: disk.csi.example
"""


def on_terminal(text: str, width: int) -> str:
    file = StringIO()
    print_page(text, Console(file=file, width=width, force_terminal=True, color_system=None))
    return file.getvalue()


def test_in_a_pipe_a_page_is_printed_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "topologyconflict", "Bound"]) == ExitCode.FINE
    assert capsys.readouterr().out == f"{page_of('TopologyConflict')}\n{page_of('Bound')}"


def test_on_a_terminal_paragraphs_fit_the_window_and_commands_are_not_broken() -> None:
    lines = on_terminal(page_of("TopologyConflict"), 60).splitlines()
    assert "    kubectl get nodes -L topology.kubernetes.io/zone" in lines
    assert "      Next: kubectl uncordon a1   (if its maintenance is over; nodes in b cannot help)" in lines
    assert not any("```" in line or line.startswith("#") for line in lines)
    assert {line for line in lines if len(line.rstrip()) > 60} <= {
        f"    {line}" for line in page_of("TopologyConflict").splitlines()
    }


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == ExitCode.FINE
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]}
    assert listed == set(meanings())


def test_an_unknown_code_is_a_fault_of_usage_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "TopologyConflct"]) == ExitCode.USAGE
    assert 'unknown code "TopologyConflct"; did you mean "TopologyConflict"?' in capsys.readouterr().err


@pytest.mark.parametrize("scope", [[], ["-A"]])
def test_why_ends_with_the_command_that_explains_its_codes(
    scope: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(UNKNOWN_CLASS)
    assert cli.main(["why", *scope, "-f", str(dump)]) == ExitCode.PROBLEM_FOUND
    assert capsys.readouterr().out.splitlines()[-1] == "Explain: pvc-prebinder explain StorageClassNotFound"
