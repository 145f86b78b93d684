"""The command `simulate` as a whole."""

import json
from pathlib import Path

import pytest

from prebinder.cli import main

SMALL = ["simulate", "--nodes=12", "--pods=60", "--seed=5"]


def report(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    code = main([*SMALL, *flags])
    return code, capsys.readouterr().out


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_same_seed_gives_the_same_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path, output: str) -> None:
    files = [tmp_path / "trace", tmp_path / "chart.svg"]
    flags = ["-o", output, f"--trace={files[0]}", f"--chart={files[1]}"]
    runs = [(report(capsys, *flags), [file.read_bytes() for file in files]) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][1][1].startswith(b"<svg")


def test_the_report_and_the_trace_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out = report(capsys, "-o", "json", f"--trace={tmp_path / 'trace'}")
    found = json.loads(out)
    placed = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert (found["kind"], found["result"]["pods"], found["whatIf"]) == ("SimulationReport", 60, None)
    assert found["result"]["placed"] == len(placed) == 60 - found["result"]["failed"] > 0
    assert code == (3 if found["result"]["failed"] else 0)


def test_what_if_stands_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(report(capsys, "-o", "json", "--drain=node-00001", "--zone-down=zone-b")[1])["whatIf"]
    assert (found["drained"], found["zonesDown"]) == (["node-00001"], ["zone-b"])
    assert found["displaced"] == found["result"]["placed"] + found["result"]["failed"] > 0
    assert "WITH node-00001 drained" in report(capsys, "--drain=node-00001")[1]


def test_a_trace_is_replayed_and_gone_on_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    traces = [tmp_path / "first", tmp_path / "second", tmp_path / "half"]
    whole = json.loads(report(capsys, "-o", "json", f"--trace={traces[0]}")[1])["result"]
    again = json.loads(report(capsys, "-o", "json", f"--replay={traces[0]}", f"--trace={traces[1]}")[1])["result"]
    assert traces[0].read_bytes() == traces[1].read_bytes()
    assert again["utilisation"] == whole["utilisation"]
    assert (again["placed"], again["pods"]) == (0, whole["failed"])
    lines = traces[0].read_bytes().splitlines(keepends=True)
    traces[2].write_bytes(b"".join(lines[:20]))
    rest = json.loads(report(capsys, "-o", "json", f"--replay={traces[2]}")[1])["result"]
    assert rest["pods"] == whole["pods"] - 20


def test_a_trace_of_another_beginning_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text('{"at":1,"change":"cordon","node":"node-99999"}\n')
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert f"{trace}, line 1: there is no node-99999; replay a trace with the --seed" in capsys.readouterr().err
    trace.write_text('{"at":1,"change":"paint","node":"node-00001"}\n')
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert f"{trace}, line 1: expected a change as --trace writes it" in capsys.readouterr().err
    assert main([*SMALL, f"--replay={tmp_path / 'none'}"]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_a_dump_is_taken_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    ready = {"allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": ready} for name in ("n1", "n2")]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": []}}
        for name, node in (("runs", "n1"), ("waits", None))
    ]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    found = json.loads(report(capsys, "-f", str(dump), "--drain=n1", "-o", "json")[1])
    assert (found["result"]["pods"], found["result"]["placed"]) == (1, 1)
    assert found["whatIf"]["result"]["failed"] == 0


@pytest.mark.parametrize(
    ("flags", "told", "code"),
    [
        (["--plugins=BinPak"], 'no plugin "BinPak"', 2),
        (["--weights=BinPack"], "expected NAME=N", 2),
        (["--weights=Nothing=1"], 'no plugin "Nothing"', 2),
        (["--pods=0"], "expected a whole number from 1 on", 2),
        (["--drain=node-9"], "--drain node-9: there is none of that name", 1),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], flags: list[str], told: str, code: int) -> None:
    assert main([*SMALL, *flags]) == code
    assert told in capsys.readouterr().err


def test_weights_and_plugins_change_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    def emptiest(*flags: str) -> float:
        return float(json.loads(report(capsys, "-o", "json", *flags)[1])["result"]["utilisation"]["cpu"]["least"])

    assert emptiest("--plugins=NodeResourcesFit,BinPack") < emptiest("--plugins=NodeResourcesFit,LeastAllocated")
    assert emptiest("--weights=BinPack=100,LeastAllocated=0") < emptiest()
