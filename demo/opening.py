"""What the demo shows while Kubernetes is being built: what it would do with the demo's own pods, computed offline.

The result is that of `pvc-prebinder match` for the same objects, which are saved in a file for further use.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo import scene
from demo.documents import Document
from demo.show import print_lines
from demo.stage import demo_node
from demo.view import save_table
from kube.objects.model import record_key
from why.match.pods import PodAnswer, pod_answers, waiting
from why.reading.dump import read_dump

_MINUTES = "Kubernetes is built from source, once; it takes some minutes and uses every core."


def play_opening(console: Console, file: Path, program: str) -> None:
    """Write the demo's objects to the file, and print where kube-scheduler alone would put its pods."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_dump())
    answers = alone()
    print_lines(console, [_MINUTES, "Meanwhile, offline: the volumes that Kubernetes would give the demo's pods.", ""])
    console.print(_table(answers))
    print_lines(
        console,
        [
            "",
            "Kubernetes does not ask drivers how their volumes are. In the demo the same pods get healthy volumes.",
            f"Which volumes it rejects, and why:  {program} match -f {file} --node node-a1",
            "",
        ],
    )


def alone() -> list[PodAnswer]:
    """Return where kube-scheduler alone would put the demo's pods."""
    snapshot = read_dump(["-"], BytesIO(_dump().encode()), datetime.now(UTC)).facts.snapshot
    nodes = sorted(snapshot.nodes.values(), key=record_key)
    return list(pod_answers(waiting(sorted(snapshot.pods.values(), key=record_key)), nodes, snapshot))


def save_alone(picture: Path) -> None:
    """Save the same as a picture, to be laid beside that of the result. Raises OSError."""
    save_table(picture, "Kubernetes alone", _table(alone()), ())


def _dump() -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects())}, indent=1)


def objects() -> Iterator[Document]:
    """Yield the initial objects of the demo's cluster, StatefulSets expanded to their pods."""
    yield from (demo_node(name, zone).manifest() for name, zone in scene.node_names())
    for document in scene.storage_documents():
        yield document | ({"status": {"phase": "Available"}} if document["kind"] == "PersistentVolume" else {})
    for document in scene.pod_documents():
        pods = _replicas(document) if document["kind"] == "StatefulSet" else [document]
        yield from (pod | {"status": {"phase": "Pending"}} for pod in pods)


def _replicas(stateful_set: Document) -> Iterator[Document]:
    """Yield the pods of a StatefulSet preceded by their claims, named as its controller names them."""
    metadata, spec = stateful_set["metadata"], stateful_set["spec"]
    for number in range(spec["replicas"]):
        pod = deepcopy(spec["template"]["spec"]) | {"volumes": []}
        name = f"{metadata['name']}-{number}"
        for template in spec["volumeClaimTemplates"]:
            volume = template["metadata"]["name"]
            claim = f"{volume}-{name}"
            pod["volumes"].append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
            yield _object("PersistentVolumeClaim", claim, metadata["namespace"], template["spec"])
        yield _object("Pod", name, metadata["namespace"], pod)


def _object(kind: str, name: str, namespace: str, spec: Document) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _table(answers: list[PodAnswer]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("POD", "NODE", "VOLUME", "ITS DRIVER SAYS"):
        table.add_column(heading, no_wrap=True)
    notes = {volume.name: volume.note for volume in scene.volumes()}
    for answer in answers:
        node = next((node for node in answer.nodes if node.fits), None)
        if node is None:
            table.add_row(answer.pod.name, "none", "-", "no node reaches a volume for each claim")
            continue
        for position, (_, volume) in enumerate(node.volumes):
            pod, name = (answer.pod.name, node.node) if position == 0 else ("", "")
            table.add_row(pod, name, volume.name, notes[volume.name])
    return table
