"""What the command `match` says of pods."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.builders import ZONE
from tests.prebinder.dump_file import write_dump

RWO = ["ReadWriteOnce"]
DRIVER = "disk.csi.example"
STORAGE = "storage.k8s.io/v1"

Match = Callable[..., tuple[int, str]]
"""Objects and flags in; exit code and standard output out."""


def thing(kind: str, name: str, api: str = "v1", **parts: object) -> dict[str, object]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **parts}


def node(name: str, zone: str) -> dict[str, object]:
    return thing("Node", name) | {"metadata": {"name": name, "labels": {ZONE: zone}}}


def volume(name: str, zone: str) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    spec = {"capacity": {"storage": "5Gi"}, "accessModes": RWO, "storageClassName": "fast"}
    place = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return thing("PersistentVolume", name, spec=spec | place, status={"phase": "Available"})


def claim(name: str, storage_class: str) -> dict[str, object]:
    spec = {"resources": {"requests": {"storage": "2Gi"}}, "accessModes": RWO, "storageClassName": storage_class}
    return thing("PersistentVolumeClaim", name, spec=spec)


def storage_class(name: str, provisioner: str) -> dict[str, object]:
    later = "WaitForFirstConsumer"
    return thing("StorageClass", name, STORAGE, provisioner=provisioner, volumeBindingMode=later)


def pod(name: str, *claims: str, **spec: object) -> dict[str, object]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return thing("Pod", name, spec={"volumes": volumes, **spec})


def limit(node_name: str, count: int) -> dict[str, object]:
    driver = {"name": DRIVER, "nodeID": node_name, "allocatable": {"count": count}}
    return thing("CSINode", node_name, STORAGE, spec={"drivers": [driver]})


CLUSTER = [
    storage_class("fast", "kubernetes.io/no-provisioner"),
    storage_class("made", DRIVER),
    thing("CSIDriver", DRIVER, STORAGE, spec={"storageCapacity": True}),
    {
        **thing("CSIStorageCapacity", "room", STORAGE, capacity="2Gi", storageClassName="made"),
        "nodeTopology": {"matchLabels": {ZONE: "a"}},
    },
    node("n1", "a"),
    node("n2", "b"),
    node("n3", "a"),
    limit("n3", 0),
    volume("pv-1", "a"),
    claim("data", "fast"),
    claim("logs", "made"),
]


@pytest.fixture
def match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Match:
    def run(documents: list[object], *flags: str) -> tuple[int, str]:
        code = main(["match", "-f", write_dump(tmp_path, documents), *flags])
        return code, capsys.readouterr().out

    return run


def test_each_node_is_reported_with_all_its_rejections(match: Match) -> None:
    code, out = match([*CLUSTER, pod("web", "data", "logs"), pod("lone", "gone")], "-o", "json")
    n1, n2, n3 = json.loads(out)["pods"][0].pop("nodes")
    assert n1 == {"node": "n1", "fits": True, "volumes": {"data": "pv-1"}, "provision": ["logs"], "rejections": []}
    assert (n2["fits"], n2["volumes"], n2["provision"]) == (False, {}, [])
    assert n2["rejections"] == [
        {
            "reason": "StaticOnlyNoMatch",
            "wanted": "a volume of class fast with 2Gi for default/data",
            "offered": "no Available volume accessible from this node, and none can be provisioned",
        },
        {
            "reason": "InsufficientCapacity",
            "wanted": "2Gi of class made for default/logs",
            "offered": "no CSIStorageCapacity for this node",
        },
    ]
    assert [rejection["reason"] for rejection in n3["rejections"]] == ["VolumeLimitReached"]
    assert json.loads(out)["pods"][1] == {"pod": "default/lone", "rejected": "ClaimNotFound", "nodes": []}
    assert code == 3


def test_pods_that_need_no_node_are_left_out(match: Match) -> None:
    done = pod("done", "data") | {"status": {"phase": "Succeeded"}}
    _, out = match([*CLUSTER, pod("placed", "data", nodeName="n1"), done], "-o", "json")
    assert json.loads(out)["pods"] == []
    assert "pods" not in json.loads(match(list(CLUSTER), "-o", "json")[1])


@pytest.mark.parametrize(
    ("flags", "nodes", "code"),
    [([], ["n1", "n2", "n3"], 0), (["--node", "n1"], ["n1"], 0), (["--node", "n2"], ["n2"], 3)],
)
def test_match_may_be_limited_to_a_node(match: Match, flags: list[str], nodes: list[str], code: int) -> None:
    exit_code, out = match([*CLUSTER, pod("web", "data")], "-o", "json", *flags)
    assert [row["node"] for row in json.loads(out)["pods"][0]["nodes"]] == nodes
    assert exit_code == code  # On n2 it is the claim that gets no volume.


def test_a_pod_that_fits_nowhere_is_a_problem(match: Match) -> None:
    apart = [*CLUSTER, limit("n1", 0), pod("web", "data", "logs")]
    assert match(apart, "-o", "json")[0] == 3


def test_the_table_counts_nodes_and_reasons(match: Match) -> None:
    _, out = match([*CLUSTER, pod("web", "data", "logs"), pod("lone", "gone")])
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "default/web 1 of 3 n1 data: pv-1, logs: a new volume" in lines
    assert "default/lone not evaluated - default/gone: ClaimNotFound (wanted an existing claim, found none)" in lines
    row = next(line for line in lines if line.startswith("VolumeLimitReached"))
    assert row == f"VolumeLimitReached 1 n3 1 more volume of {DRIVER} 0 of at most 0 attached"
    assert lines[-1].endswith("2 StorageClass, 1 CSIDriver, 1 CSIStorageCapacity, 1 CSINode.")
