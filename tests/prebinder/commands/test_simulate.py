"""The command `simulate` as a whole."""

import json
import re
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump

HEADER = '{"apiVersion":"pvc-prebinder/v1alpha1","kind":"SimulationTrace"}\n'
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
    summary = json.loads(out)
    header, *placed = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert header == {"apiVersion": "pvc-prebinder/v1alpha1", "kind": "SimulationTrace"}
    assert (summary["kind"], summary["result"]["pods"], summary["whatIf"]) == ("SimulationReport", 60, None)
    assert summary["result"]["placed"] == len(placed) == 60 - summary["result"]["failed"] > 0
    assert code == (3 if summary["result"]["failed"] else 0)


def test_what_if_stands_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    what_if = json.loads(report(capsys, "-o", "json", "--drain=node-00001", "--zone-down=zone-b")[1])["whatIf"]
    assert what_if["changes"] == ["node-00001 drained", "zone-b gone"]
    assert what_if["displaced"] == what_if["result"]["placed"] + what_if["result"]["failed"] > 0
    assert "WITH node-00001 drained" in report(capsys, "--drain=node-00001")[1]


def test_a_trace_is_replayed_and_continued(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    traces = [tmp_path / "first", tmp_path / "second", tmp_path / "half"]
    whole = json.loads(report(capsys, "-o", "json", f"--trace={traces[0]}")[1])["result"]
    again = json.loads(report(capsys, "-o", "json", f"--replay={traces[0]}", f"--trace={traces[1]}")[1])["result"]
    assert traces[0].read_bytes() == traces[1].read_bytes()
    assert again["utilisation"] == whole["utilisation"]
    assert (again["placed"], again["pods"]) == (0, whole["failed"])
    lines = traces[0].read_bytes().splitlines(keepends=True)
    traces[2].write_bytes(b"".join(lines[:20]))
    rest = json.loads(report(capsys, "-o", "json", f"--replay={traces[2]}")[1])["result"]
    assert rest["pods"] == whole["pods"] - 19


def test_a_trace_of_another_beginning_is_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(HEADER + '{"at":1,"change":"cordon","node":"node-99999"}\n')
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert f"{trace}, line 2: there is no node-99999; replay a trace with the --seed" in capsys.readouterr().err
    trace.write_text(HEADER + '{"at":1,"change":"paint","node":"node-00001"}\n')
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert f"{trace}, line 2: expected a change as --trace writes it" in capsys.readouterr().err
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
    main(
        ["simulate", "--seed=5", "-f", write_dump(tmp_path, [*nodes, *pods]), "--drain=n1", "--drain=n1", "-o", "json"]
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["whatIf"]["changes"] == ["n1 drained"]
    assert (summary["result"]["pods"], summary["result"]["placed"]) == (1, 1)
    assert summary["whatIf"]["result"]["failed"] == 0


@pytest.mark.parametrize(("cut_off", "node"), [("n1", "n2"), ("n2", "n1")])
def test_a_node_that_is_cut_off_from_its_storage_is_passed_over(cut_off: str, node: str, tmp_path: Path) -> None:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    ready = {"allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    conditions = [{"name": "disk.csi.example", "healthConditions": [{"status": "StorageUnreachable"}]}]
    csi = {"driver": "disk.csi.example", "volumeHandle": "1"}
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    records = [
        *(document("v1", "Node", name, status=ready) for name in ("n1", "n2")),
        document("storage.k8s.io/v1", "CSINode", cut_off, status={"storageHealth": conditions}),
        document("storage.k8s.io/v1", "StorageClass", "fast", volumeBindingMode="WaitForFirstConsumer", provisioner=""),
        document(
            "v1",
            "PersistentVolume",
            "pv",
            spec={"capacity": size, "accessModes": modes, "storageClassName": "fast", "csi": csi},
            status={"phase": "Available"},
        ),
        document(
            "v1",
            "PersistentVolumeClaim",
            "data",
            spec={"resources": {"requests": size}, "accessModes": modes, "storageClassName": "fast"},
        ),
        document("v1", "Pod", "waits", spec={"containers": [], "volumes": claimed}),
    ]
    trace = tmp_path / "trace"
    main(["simulate", "--seed=5", "-f", write_dump(tmp_path, records), f"--trace={trace}"])
    assert [json.loads(line)["node"] for line in trace.read_text().splitlines()[1:]] == [node]


def document(version: str, kind: str, name: str, **rest: object) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": f"uid-{name}"}, **rest}


@pytest.mark.parametrize(
    ("flags", "message", "code"),
    [
        (["--plugins=BinPak"], 'no plugin "BinPak"', 2),
        (["--plugins="], "--plugins: expected NAME,..., found nothing", 2),
        (["--weights=BinPack"], "expected NAME=N", 2),
        (["--weights=BinPack=101"], "N a whole number from 0 to 100", 2),
        (["--weights=BinPack=\u00b2"], "N a whole number from 0 to 100", 2),
        (["--weights=BinPack=1,BinPack=2"], "BinPack is given twice", 2),
        (["--weights=,"], "--weights: expected NAME=N,..., found nothing", 2),
        (["--weights=Nothing=1"], 'no plugin "Nothing"', 2),
        (["--weights=NodePorts=1"], "NodePorts is a filter and has no weight", 2),
        (["--pods=0"], 'expected a whole number from 1 to 1000000, found "0"', 2),
        (["--pods=99999999999999999999"], "expected a whole number from 1 to 1000000", 2),
        (["--nodes=\u00b2"], "expected a whole number from 1 to 100000", 2),
        (["--nodes=\u0663"], "expected a whole number from 1 to 100000", 2),
        (["--seed=x"], '--seed: expected a whole number, found "x"', 2),
        (["--drain=node-0001"], '--drain: there is no "node-0001"; did you mean "node-000', 2),
        (["--zone-down=b"], '--zone-down: there is no "b".', 2),
        (["--trace="], 'cannot write ".": it is a directory', 1),
        (["--chart=/none/x.svg"], 'cannot write "/none/x.svg": no such directory', 1),
        (["-f", "/none"], "--nodes is for a generated cluster; with --filename the cluster is the dump's", 2),
    ],
)
def test_errors_are_reported(capsys: pytest.CaptureFixture[str], flags: list[str], message: str, code: int) -> None:
    assert main([*SMALL, *flags]) == code
    assert message in capsys.readouterr().err


def test_the_result_is_printed_although_the_trace_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--trace=/dev/full"]) == 1
    output = capsys.readouterr()
    assert "pods/s" in output.out
    assert output.err == "pvc-prebinder: cannot write /dev/full: No space left on device\n"


def test_a_line_that_was_cut_off_is_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    report(capsys, f"--trace={trace}")
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    assert main([*SMALL, f"--replay={trace}", "-o", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["result"]["pods"] == len(lines) - 5
    assert "the last line is truncated and was skipped" in output.err


def test_a_trace_that_goes_against_itself_is_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    report(capsys, f"--trace={trace}")
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(lines[0] + lines[1] * 2)
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert re.search(r"trace, line 3: default/\S+ is already on node-\d+; replay", capsys.readouterr().err)
    trace.write_bytes(HEADER.encode() + b'{"at":1,"change":"cordon","node":"\xff"}\n')
    assert main([*SMALL, f"--replay={trace}"]) == 1
    assert "line 2: expected a change as --trace writes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ('{"at":1,"change":"cordon","node":"node-00001"}', "expected a trace: kind SimulationTrace"),
        (HEADER.replace("v1alpha1", "v9").strip(), "found kind SimulationTrace, apiVersion pvc-prebinder/v9"),
        ("", "expected a trace"),
    ],
    ids=["no header", "another version", "empty"],
)
def test_what_is_no_trace_of_this_version_is_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, first: str, message: str
) -> None:
    trace = tmp_path / "trace"
    trace.write_text(f"{first}\n" if first else "")
    assert main([*SMALL, f"--replay={trace}"]) == 1
    error = capsys.readouterr().err
    assert f"{trace}, line 1: expected a trace" in error
    assert message in error


def test_a_dump_without_nodes_is_rejected_with_the_next_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    assert main(["simulate", "-f", str(dump)]) == 1
    assert f"no Node in {dump}; dump them too: kubectl get node,pod,pv" in capsys.readouterr().err


def test_weights_and_plugins_change_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    def emptiest(*flags: str) -> float:
        return float(json.loads(report(capsys, "-o", "json", *flags)[1])["result"]["utilisation"]["cpu"]["least"])

    assert emptiest("--plugins=NodeResourcesFit,BinPack") < emptiest("--plugins=NodeResourcesFit,LeastAllocated")
    assert emptiest("--weights=BinPack=100,LeastAllocated=0") < emptiest()


OFFERS = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}


def dumped(tmp_path: Path, *records: dict[str, object]) -> str:
    return f"--filename={write_dump(tmp_path, records)}"


def test_volumes_that_fail_and_nodes_that_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--unhealthy=driver/disk.csi.example", "--zone-down=zone-b", "--nodes-needed", "--node-like=node-00001"]
    summary = json.loads(report(capsys, "-o", "json", *flags)[1])
    assert summary["whatIf"]["changes"] == ["zone-b gone", "disk.csi.example unhealthy"]
    assert summary["whatIf"]["withoutData"]
    assert set(summary["nodesNeeded"]["like"]) <= {"node-00001"}
    needed = summary["nodesNeeded"]
    assert needed["pods"] == summary["result"]["failed"] + summary["whatIf"]["result"]["failed"]
    assert needed["placed"] + needed["failed"] == needed["pods"]
    text = report(capsys, *flags)[1]
    assert "Pods without their data: default/app-" in text
    assert "Nodes needed: " in text


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--unhealthy=pv/none", '--unhealthy pv: there is no "none"'),
        ("--unhealthy=driver/none", '--unhealthy driver: there is no "none"'),
        ("--unhealthy=disk", '--unhealthy: expected pv/NAME or driver/NAME, found "disk"'),
        ("--node-down=none", '--node-down: there is no "none"'),
        ("--node-like=none", '--node-like: there is no "none"'),
        ("--now=soon", 'expected a time such as 2026-01-01T12:00:00Z, found "soon"'),
    ],
)
def test_a_question_about_what_there_is_not_is_rejected(
    capsys: pytest.CaptureFixture[str], flag: str, message: str
) -> None:
    assert main([*SMALL, flag]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("now", "placed"), [("2026-01-01T00:00:00Z", 0), ("2026-01-01T01:00:00Z", 1), (None, 1)])
def test_a_reservation_in_a_dump_ends_when_it_is_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, now: str | None, placed: int
) -> None:
    prefix, size = "scheduler.cloud.example/", {"storage": "1Gi"}
    held = {"reserved-for": "default/other", "reserved-for-uid": "u", "reserved-by": "us/1"}
    held |= {"bound-at": "2025-12-31T23:55:00Z", "expires-at": "2026-01-01T00:05:00Z"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    volume = document("v1", "PersistentVolume", "pv", spec=spec | {"capacity": size}, status={"phase": "Available"})
    volume["metadata"] = {
        "name": "pv",
        "uid": "pv",
        "annotations": {prefix + key: value for key, value in held.items()},
    }
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    flag = dumped(
        tmp_path,
        document("v1", "Node", "n1", status=OFFERS),
        document("storage.k8s.io/v1", "StorageClass", "fast", volumeBindingMode="WaitForFirstConsumer", provisioner=""),
        volume,
        document("v1", "PersistentVolumeClaim", "data", spec=spec | {"resources": {"requests": size}}),
        document("v1", "Pod", "waits", spec={"containers": [], "volumes": claimed}),
    )
    main(["simulate", flag, "-o", "json", *([f"--now={now}"] if now else [])])
    summary = json.loads(capsys.readouterr().out)
    assert summary["result"]["placed"] == placed
    assert now is None or summary["now"] == now


def test_a_dump_without_capacities_says_what_it_cannot_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = document("v1", "Node", "n1", status=OFFERS)
    driver = document("storage.k8s.io/v1", "CSIDriver", "disk.example", spec={"storageCapacity": True})
    made = document(
        "storage.k8s.io/v1",
        "StorageClass",
        "made",
        volumeBindingMode="WaitForFirstConsumer",
        provisioner="disk.example",
    )
    capacity = document("storage.k8s.io/v1", "CSIStorageCapacity", "c", storageClassName="made", capacity="1Gi")
    selects = {"labelSelector": {}, "topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selects]}}
    pod = document("v1", "Pod", "p", spec={"containers": [], "affinity": affinity})
    main(["simulate", dumped(tmp_path, node, driver, made, pod), "-o", "json"])
    limits = json.loads(capsys.readouterr().out)["limits"]
    assert [limit.rpartition("; ")[2] for limit in limits] == ["dump csistoragecapacity too", "dump ns too"]
    namespace = document("v1", "Namespace", "default")
    flag = dumped(tmp_path, node, driver, made, capacity, pod, namespace)
    main(["simulate", flag])
    assert "Limitation" not in capsys.readouterr().out
