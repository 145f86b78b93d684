"""Rows of the demo's table from snapshots, its result as a picture, and the plain lines of a run without a terminal."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from csi.health.verdict import HealthState, Verdict
from demo import scene as demo_scene
from demo.documents import Document
from demo.view import (
    Patient,
    Row,
    changed_lines,
    claim_rows,
    health_word,
    patient_row,
    save_picture,
    table,
    zone_of_volume,
)
from kube.objects.model import BIND_COMPLETED, Claim, ClaimReference, Volume
from kube.store.store import snapshot_of
from tests import builders
from tests.fake_clock import START

RESERVED = {"scheduler.cloud.example/reserved-volume": "pv-1"}
BOUND = {BIND_COMPLETED: "yes"}


def row_of(claim: Claim, *volumes: Volume, rejected: str | None = None) -> Row:
    pod = builders.pod("web", claims=["data"])
    snapshot = snapshot_of([claim, pod, *volumes])
    rejections = {pod.key: rejected} if rejected else {}
    (row,) = claim_rows(snapshot, "default", {}, rejections, {}, START)
    return row


@pytest.mark.parametrize(
    ("claim", "volumes", "rejected", "state", "volume"),
    [
        pytest.param(builders.claim("data"), (), None, "Pending", "", id="nothing yet"),
        pytest.param(builders.claim("data", annotations=RESERVED), (), None, "Reserved", "pv-1", id="annotated"),
        pytest.param(
            builders.claim("data"),
            (builders.volume("pv-1", claim="default/data"),),
            None,
            "Reserved",
            "pv-1",
            id="committed by claimRef",
        ),
        pytest.param(builders.claim("data", volume_name="pv-1"), (), None, "Binding", "pv-1", id="volumeName only"),
        pytest.param(
            builders.claim("data", volume_name="pv-1", phase="Bound", annotations=BOUND),
            (),
            None,
            "Bound",
            "pv-1",
            id="bound",
        ),
        pytest.param(
            builders.claim("data"), (), "StaticOnlyNoMatch", "Rejected (StaticOnlyNoMatch)", "", id="rejected"
        ),
        pytest.param(
            builders.claim("data", annotations=RESERVED),
            (),
            "StaticOnlyNoMatch",
            "Reserved",
            "pv-1",
            id="rejected before",
        ),
    ],
)
def test_state_and_volume(
    claim: Claim, volumes: tuple[Volume, ...], rejected: str | None, state: str, volume: str
) -> None:
    row = row_of(claim, *volumes, rejected=rejected)
    assert (row.state, row.volume, row.pod) == (state, volume, "web")


@pytest.mark.parametrize(
    ("volume", "zone"),
    [
        pytest.param(builders.volume("pv-1", zone="zone-a"), "zone-a", id="zonal"),
        pytest.param(builders.volume("pv-1", node="node-1"), "zone-b", id="of a node"),
        pytest.param(builders.volume("pv-1", node="gone"), "", id="of a node that is gone"),
        pytest.param(builders.volume("pv-1"), "", id="anywhere"),
    ],
)
def test_zone_of_a_volume(volume: Volume, zone: str) -> None:
    snapshot = snapshot_of([volume, builders.node("node-1", zone="zone-b")])
    assert zone_of_volume(snapshot, volume) == zone


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (HealthState.HEALTHY, "✓ Healthy"),
        (HealthState.DATA_LOSS, "✗ DataLoss"),
        (HealthState.UNKNOWN, "? Unknown"),
        (None, "? Not probed"),
    ],
)
def test_health_reads_without_colour(state: HealthState | None, word: str) -> None:
    verdict = None if state is None else Verdict(state, "", "", "driver", START)
    assert health_word(verdict) == word


def test_age_stops_when_a_claim_is_settled() -> None:
    claim = builders.claim("data", created=START - timedelta(seconds=9))
    (row,) = claim_rows(snapshot_of([claim]), "default", {}, {}, {claim.key: START - timedelta(seconds=5)}, START)
    assert (row.age, row.settled_after, row.cells()[-1]) == (9.0, 4.0, "4.0s")


def test_only_changes_make_a_line() -> None:
    before = [row_of(builders.claim("data"))]
    after = [row_of(builders.claim("data", annotations=RESERVED))]
    assert changed_lines(before, before) == []
    assert ["Reserved" in line and "volume=pv-1" in line for line in changed_lines(before, after)] == [True]


@pytest.mark.parametrize(
    ("volume", "state"),
    [
        pytest.param(builders.volume("pv-1", zone="zone-a"), "Available", id="not kept yet"),
        pytest.param(
            builders.volume(
                "pv-1",
                zone="zone-a",
                claim=ClaimReference("kube-system", "quarantine-pv-1"),
                annotations={"scheduler.cloud.example/quarantine": "Inaccessible"},
            ),
            "Quarantined",
            id="kept from claims",
        ),
    ],
)
def test_the_volume_that_becomes_unhealthy_has_a_row(volume: Volume, state: str) -> None:
    unhealthy = Verdict(HealthState.INACCESSIBLE, "", "", "driver", START)
    patient = Patient("pv-1", START - timedelta(seconds=2))
    row = patient_row(snapshot_of([volume]), {"pv-1": unhealthy}, patient, START)
    assert row is not None
    assert row.cells() == ("-", "-", "zone-a", "pv-1", "✗ Inaccessible", state, "2.0s")
    assert changed_lines([], [row]) == [
        f"   2.0s  pv-1           {state:<22} volume=pv-1 zone=zone-a health=✗ Inaccessible"
    ]
    assert patient_row(snapshot_of([]), {}, patient, START) is None


def test_the_table_fits_into_80_columns_and_cuts_nothing() -> None:
    names = list(claims_of(demo_scene.pod_documents() + demo_scene.shop_documents()))
    longest = max(len(volume.name) for volume in demo_scene.volumes() if volume.note == demo_scene.HEALTHY)
    widest = [
        Row(claim, pod, "zone-a", "v" * longest, "✗ Inaccessible", "Rejected (NoJointAssignment)", 99.9, None)
        for pod, claim in names
    ]
    widest.append(replace(widest[0], state="Quarantined"))
    with StringIO() as out:
        Console(file=out, width=80).print(table(widest))
        printed = out.getvalue()
    assert "…" not in printed
    assert all(claim in printed and pod in printed for pod, claim in names)
    assert "Rejected" in printed
    assert "NoJointAssignment" not in printed


def claims_of(documents: list[Document]) -> Iterator[tuple[str, str]]:
    """Yield (pod, claim) of the documents; the first of a StatefulSet stands for all of them."""
    for document in documents:
        if document["kind"] == "StatefulSet":
            pod = f"{document['metadata']['name']}-0"
            for template in document["spec"]["volumeClaimTemplates"]:
                yield pod, f"{template['metadata']['name']}-{pod}"
        elif document["kind"] == "Pod":
            for volume in document["spec"]["volumes"]:
                yield document["metadata"]["name"], volume["persistentVolumeClaim"]["claimName"]


def test_the_picture_holds_the_table_and_the_lines_below_it(tmp_path: Path) -> None:
    row = Row("data-db-0", "db-0", "zone-b", "b-medium-1", "✓ Healthy", "Bound", 2.7, 2.7)
    save_picture(tmp_path / "demo.svg", [row], ["1 of 1 claims bound.", "", "[x] <b>is text</b> " + "word " * 40])
    picture = (tmp_path / "demo.svg").read_text()
    assert "url(http" not in picture
    shown = "".join(ElementTree.fromstring(picture).itertext()).replace("\xa0", " ")
    for text in ("data-db-0", "b-medium-1", "1 of 1 claims bound.", "[x] <b>is text</b>"):
        assert text in shown
    assert shown.count("word") == 40
