"""What `pvc-prebinder health` prints as rows change."""

import json
from dataclasses import replace

import pytest

from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState
from prebinder.command_line.output import Output
from prebinder.health.rows import HealthRow, health_row
from prebinder.health.watch import HealthPrinter
from tests.builders import EPOCH, volume

WELL, OTHER = (health_row(volume(name), None, (), Annotations("prefix/"), EPOCH) for name in ("pv-1", "pv-2"))
UNHEALTHY = replace(WELL, health=HealthState.DATA_LOSS, reason="Gone")


@pytest.fixture(params=["json", "table"])
def output(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(printer: HealthPrinter, capsysbinary: pytest.CaptureFixture[bytes], *rows: HealthRow) -> list[str]:
    printer.show(rows)
    return capsysbinary.readouterr().out.decode().splitlines()


def test_each_change_is_one_document(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = HealthPrinter(Output("json"), watching=True)
    documents = [
        [
            (document["volume"], document["health"], document["reason"])
            for document in map(json.loads, shown(printer, capsysbinary, *rows))
        ]
        for rows in (
            (WELL, OTHER),
            (WELL, OTHER),
            (UNHEALTHY, OTHER),
            (replace(UNHEALTHY, probed="later"), OTHER),
            (OTHER,),
        )
    ]
    assert documents == [
        [("pv-1", "Unknown", "NotReported"), ("pv-2", "Unknown", "NotReported")],
        [],
        [("pv-1", "DataLoss", "Gone")],
        [],
        [("pv-1", "Unknown", "VolumeDeleted")],
    ]


def test_a_table_has_one_header(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = HealthPrinter(Output("table"), watching=False)
    first, second = shown(printer, capsysbinary, WELL, OTHER), shown(printer, capsysbinary, UNHEALTHY, OTHER)
    assert sum("HEALTH" in line for line in first) == 1
    assert [line.split()[:3] for line in second if line.strip()] == [["pv-1", "DataLoss", "Gone"]]


def test_an_empty_cluster_is_reported_once(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = HealthPrinter(Output("table"), watching=False)
    assert "There are no PersistentVolumes." in "".join(shown(printer, capsysbinary))
    assert shown(printer, capsysbinary) == []
    assert "VOLUME" in shown(printer, capsysbinary, WELL)[0]


def test_the_exit_code_goes_by_what_was_shown_last(output: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printer, seen = HealthPrinter(Output(output), watching=True), []
    for rows in ((WELL,), (UNHEALTHY,), (WELL,), (UNHEALTHY, OTHER), (OTHER,)):
        printer.show(rows)
        seen.append(printer.any_unhealthy)
    assert seen == [False, True, False, True, False]
