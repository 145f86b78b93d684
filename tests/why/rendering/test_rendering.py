"""What a person sees: whole words in a narrow window, one place on a terminal, and colours only there."""

import os
import pty
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from tests.why.documents import (
    NOW,
    claim,
    csi_node,
    driver,
    event,
    facts_of,
    node,
    pod,
    storage_class,
    volume,
)
from why.explain.answering import report_on
from why.rendering.overview import print_overview
from why.rendering.printer import Printer
from why.rendering.text import note_lines, print_report
from why.report.report import WhyReport

NARROW = 80
LONG = "a-claim-with-a-name-that-is-longer-than-its-column"
DOCUMENTS = [
    pod("db-0", "data"),
    claim(volume="pv-1"),
    volume(claim="data", zone="a"),
    storage_class(),
    node("a1", "a", cordoned=True),
    node("b1", "b"),
    csi_node("a1"),
    claim("typo", storage_class="fsat"),
    claim("idle"),
    claim(LONG, storage_class="ebs"),
    storage_class("ebs", provisioner="ebs.csi.aws.com", mode="Immediate"),
]


def report() -> WhyReport:
    return report_on(facts_of(*DOCUMENTS), (), "")


def overview(width: int) -> list[str]:
    file = StringIO()
    print_overview(report(), Console(file=file, width=width, highlight=False), NOW)
    return file.getvalue().splitlines()


def test_the_table_breaks_and_truncates_no_name_and_no_command_at_80_columns() -> None:
    lines = overview(NARROW)
    assert lines[0] == "ROOT CAUSE              OF          CLAIMS  OLDEST  EXAMPLE               NEXT"
    for item in report().items:
        if item.problem:
            assert sum(line.endswith(item.next[0]) for line in lines) == 1
    assert any(f" web/{LONG}" in line for line in lines)
    assert {word for line in lines for word in line.split()} <= {
        word for line in overview(300) for word in line.split()
    } | {"..."}
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        line.split()[0] for line in overview(300)
    ]


def test_no_command_that_changes_something_is_in_the_table_without_what_it_does() -> None:
    file = StringIO()
    mismatch = [claim(size="20Gi", spec={"volumeName": "pv-1"}), volume(), storage_class()]
    print_overview(report_on(facts_of(*mismatch), (), ""), Console(file=file, width=NARROW, highlight=False), NOW)
    assert "    kubectl -n web delete pvc data\n      (delete the claim (it has no data yet) and" in file.getvalue()


def test_what_the_pods_of_one_provisioner_report_is_one_line() -> None:
    made = [storage_class(provisioner="ebs.csi.aws.com", mode="Immediate"), driver("ebs.csi.aws.com")]
    for number in range(3):
        reporter = f"ebs.csi.aws.com_controller-{number}_uid-{number}"
        note = "rpc error: code = Internal desc = oops"
        made.append(claim(f"data-{number}"))
        made.append(event("PersistentVolumeClaim", f"data-{number}", "ProvisioningFailed", note, reporter=reporter))
    file = StringIO()
    print_overview(report_on(facts_of(*made), (), ""), Console(file=file, width=NARROW, highlight=False), NOW)
    rows = [line for line in file.getvalue().splitlines()[1:] if not line.startswith(" ")]
    assert [line.split()[:4] for line in rows] == [["BackendError", "driver", "ebs.csi.aws.com", "3"]]


@pytest.mark.parametrize("wide", [False, True])
def test_no_line_but_a_command_is_longer_than_80_columns(wide: bool) -> None:
    texts = []
    for width in (NARROW, 300):
        file = StringIO()
        print_report(report(), Console(file=file, width=width, highlight=False), NOW, wide=wide)
        texts.append(file.getvalue())
    narrow, broad = texts
    assert narrow.split() == broad.split()
    long = [line for line in narrow.splitlines() if len(line) > NARROW]
    assert all("kubectl " in line or " · " in line for line in long)


def test_a_command_in_a_note_is_never_broken() -> None:
    command = """`kubectl patch pv pv-1 -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`"""
    lines = note_lines(f"if the data matters, run {command} first, before the pods are deleted", 60, 8)
    assert command in [line.strip() for line in lines]
    assert max(len(line) for line in lines if command not in line) <= 60


def test_on_a_terminal_a_report_replaces_the_one_before() -> None:
    file = StringIO()
    printer = Printer("text", Console(file=file, force_terminal=True, width=NARROW), overview=False)
    printer.print(report(), NOW, again=True)
    first = file.getvalue()
    printer.print(WhyReport(), NOW, again=True)
    assert "\x1b[2J" not in first
    assert file.getvalue().removeprefix(first).startswith("\x1b[2J\x1b[H")
    assert "Nothing is pending." in file.getvalue()


def test_elsewhere_only_what_has_changed_is_printed() -> None:
    file = StringIO()
    printer = Printer("text", Console(file=file, width=NARROW), overview=False)
    for each in (report(), report(), WhyReport()):
        printer.print(each, NOW, again=True)
    assert file.getvalue().count("pod web/db-0") == 1
    assert file.getvalue().endswith("Nothing is pending.\n")
    assert "\x1b[" not in file.getvalue()


@pytest.mark.parametrize(("flag", "coloured"), [("auto", True), ("never", False)])
def test_a_terminal_gets_colours(flag: str, coloured: bool) -> None:
    """In a real one, of 80 columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "prebinder.cli", "why", "-A", "-f", "-", "--color", flag]
    typo = b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n" + (
        b"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: web}\n"
        b"spec: {storageClassName: fsat, resources: {requests: {storage: 1Gi}}}\n---\n"
        b"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: disk.csi.example\n"
    )
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(NARROW)}
    environment.pop("NO_COLOR", None)
    finished = subprocess.run(command, input=typo, stdout=theirs, env=environment, check=False)
    os.close(theirs)
    printed = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert finished.returncode == 3
    assert "StorageClassNotFound" in printed
    assert ("\x1b[31m" in printed) is coloured
    assert ("\x1b[" in printed) is coloured
