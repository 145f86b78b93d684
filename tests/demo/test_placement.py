"""The demo's third act: the input is the same on both sides, and what came of it stands side by side."""

import json

from demo.documents import Document
from demo.placement import ARCHIVE, LEDGER, SIDES, placements, set_document, storage_documents
from kube.objects.model import Record
from kube.store.store import snapshot_of
from tests.builders import claim, node, pod, volume

PLAIN, STEERED = SIDES


def neutral(documents: list[Document], side: str, scheduler: str) -> list[Document]:
    """Return the documents without what tells the sides apart: names, scheduler, gate and mode."""
    text = json.dumps(documents).replace(side, "SIDE").replace(scheduler, "SCHEDULER")
    copies: list[Document] = json.loads(text)
    for document in copies:
        document["metadata"].pop("annotations", None)
        if document["kind"] == "StatefulSet":
            del document["spec"]["template"]["spec"]["schedulingGates"]
    return copies


def test_both_sides_get_the_same_input() -> None:
    plain, steered = (
        neutral(
            [*storage_documents(side), *(set_document(side, name) for name in (LEDGER, ARCHIVE))],
            side.name,
            side.plan.scheduler,
        )
        for side in SIDES
    )
    assert plain == steered


def served(side: str, name: str, on: str, given: str) -> list[Record]:
    """A pod on a node, its claim for 10Gi, and the volume it got."""
    return [
        claim(f"wal-{name}", namespace=side, size="10Gi", volume_name=f"{side}-{name}"),
        pod(name, namespace=side, claims=[f"wal-{name}"], node=on),
        volume(f"{side}-{name}", size=given),
    ]


def test_each_pod_is_shown_beside_its_counterpart_with_what_is_wasted_or_why_it_waits() -> None:
    snapshot = snapshot_of(
        [
            node("node-a1", zone="zone-a"),
            node("node-b1", zone="zone-b"),
            *served(PLAIN.name, "ledger-0", "node-a1", "100Gi"),
            *served(STEERED.name, "ledger-0", "node-b1", "10Gi"),
            pod("archive-0", namespace=PLAIN.name),
            *served(STEERED.name, "archive-0", "node-a1", "10Gi"),
        ]
    )
    why = "0/6 nodes are available: 6 node(s) didn't find available persistent volumes to bind. preemption: none."
    _, _, *lines = placements(snapshot, {f"{PLAIN.name}/archive-0": why})
    assert [line.split() for line in lines] == [
        ["ledger-0", "default-scheduler", "zone-a", "node-a1", "100Gi", "(90Gi", "wasted)"],
        ["ledger-0", "zone-scheduler", "zone-b", "node-b1", "10Gi"],
        ["archive-0", "default-scheduler", "-", "-", "waits:", *why.partition(". ")[0].split()],
        ["archive-0", "zone-scheduler", "zone-a", "node-a1", "10Gi"],
    ]
    assert len({line.index(word) for line in lines for word in ("default-", "zone-scheduler") if word in line}) == 1


def test_nothing_is_reported_about_an_act_that_was_not_played() -> None:
    assert list(placements(snapshot_of([node()]), {})) == []
