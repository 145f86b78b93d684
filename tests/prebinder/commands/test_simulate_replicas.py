"""`simulate --scale` and `--fill`: whether existing volumes and nodes take more replicas, from a dump."""

import json
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.scenarios.environment.documents import ZONE, claim_spec, stateful_set, storage_class, volume

FREE = {"zone-a": 2, "zone-b": 4, "zone-c": 4}


def cluster(directory: Path, **more: object) -> str:
    """A dump of three zones with free volumes, and a set in namespace `web` without replicas, in mode annotate."""
    documents: list[object] = [storage_class("disks", "annotate")]
    for zone, count in FREE.items():
        labels = {ZONE: zone, "kubernetes.io/hostname": f"node-{zone}"}
        allocatable = {"pods": "110", "cpu": "8", "memory": "32Gi"}
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"node-{zone}", "labels": labels},
                "status": {"allocatable": allocatable},
            }
        )
        for number in range(count):
            documents.append(volume(f"pv-{zone}-{number}", "disks", zone=zone) | {"status": {"phase": "Available"}})
    documents.append(stateful_set("web", "db", {"data": claim_spec("disks")}, replicas=0))
    return write_dump(directory, [*documents, *more.values()])


@pytest.mark.parametrize(
    ("flags", "code", "last"),
    [
        pytest.param(["--scale=statefulset/db=6"], 0, "volumes and nodes for 6 replicas are there.", id="all fit"),
        pytest.param(["--scale=sts/db=12"], 3, "nothing fits replica 10; zone-a runs out first", id="too many"),
        pytest.param(
            ["--fill=statefulset/db"],
            0,
            "10 more replicas fit; zone-a runs out first. Nothing fits replica 10: web/data-db-10: StaticOnlyNoMatch",
            id="fill",
        ),
    ],
)
def test_it_says_what_fits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: list[str], code: int, last: str
) -> None:
    assert main(["simulate", "-f", cluster(tmp_path), "-n", "web", *flags]) == code
    assert last in capsys.readouterr().out.splitlines()[-1]


def test_the_document_has_every_replica(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", "-f", cluster(tmp_path), "-n", "web", "--fill=statefulset/db", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["placed"]), answer["missing"], answer["runsOutFirst"]) == (10, 10, "zone-a")
    assert [each["zone"] for each in answer["placed"][:3]] == ["zone-a", "zone-b", "zone-c"]


def test_a_quota_of_the_dump_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    limit = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "web"},
        "status": {"hard": {"persistentvolumeclaims": "4"}, "used": {"persistentvolumeclaims": "1"}},
    }
    path = cluster(tmp_path, quota=limit)
    assert main(["simulate", "-f", path, "-n", "web", "--scale=statefulset/db=4"]) == 3
    assert "ResourceQuota few" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--scale=statefulset/db"], 2),
        (["--scale=db=3"], 2),
        (["--fill=statefulset/db=3"], 2),
        (["--fill=statefulset/db", "--scale=statefulset/db=3"], 2),
        (["--fill=statefulset/other"], 1),
    ],
)
def test_what_it_cannot_answer_it_rejects(tmp_path: Path, flags: list[str], code: int) -> None:
    assert main(["simulate", "-f", cluster(tmp_path), "-n", "web", *flags]) == code
