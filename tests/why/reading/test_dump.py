"""Objects from any mix of files, and what is said about the rest."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kube.objects.model import Claim, Node, Pod, StorageClass, Volume
from why.errors import WhyError
from why.facts.facts import Source
from why.reading.dump import Dump, read_dump

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
PV = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "pv-1"},
    "spec": {"capacity": {"storage": 1}},
}
PVC = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
CLASS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}


def bare(document: Mapping[str, object]) -> dict[str, object]:
    """An item of a typed list, as the API prints it."""
    return {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}


def listed(kind: str, *items: object) -> dict[str, object]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": list(items)}


def read(*documents: object) -> Dump:
    text = "\n".join(map(json.dumps, documents))
    return read_dump(["-"], io.BytesIO(text.encode()), NOW)


def keys(objects: Dump) -> list[str]:
    return [key for kind in (Volume, Claim, StorageClass, Node, Pod) for key in objects.of(kind)]


ALL = ["pv-1", "default/data", "fast", "n1", "default/web"]
SHAPES = [
    pytest.param([PV, PVC, CLASS, NODE, POD], ALL, id="objects"),
    pytest.param([listed("List", POD, NODE, CLASS, PVC, PV)], ALL, id="a list of all"),
    pytest.param(
        [listed("PersistentVolumeList", bare(PV)), listed("PodList", bare(POD))], ["pv-1", "default/web"], id="typed"
    ),
    pytest.param([listed("List", {"kind": "Node", **NODE})], ["n1"], id="items that begin with their kind"),
    pytest.param([listed("List", listed("NodeList", bare(NODE)))], ["n1"], id="a list in a list"),
    pytest.param([[PV, NODE]], ["pv-1", "n1"], id="the items of a list alone"),
    pytest.param([listed("PodList"), {"kind": "List", "items": None}], [], id="empty lists"),
    pytest.param([{**bare(PV), "kind": "PersistentVolume"}], ["pv-1"], id="no apiVersion"),
    pytest.param([{**NODE, "apiVersion": "longhorn.io/v1"}], [], id="a Node of another API"),
    pytest.param([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}], [], id="another kind"),
]


@pytest.mark.parametrize(("documents", "expected"), SHAPES)
def test_reads(documents: list[object], expected: list[str]) -> None:
    objects = read(*documents)
    assert keys(objects) == expected
    assert objects.faults == []


def test_counts_what_it_does_not_need() -> None:
    objects = read(PV, listed("List", {"kind": "Service"}, {"kind": "Service"}, {**NODE, "apiVersion": "x/v1"}))
    assert objects.ignored == {"Service": 2, "Node": 1}


FAULTS = [
    pytest.param({**PV, "spec": None}, "PersistentVolume pv-1: $.spec", id="no spec"),
    pytest.param({**PV, "spec": {"capacity": {"storage": "x"}}}, "pv-1: $.spec.capacity.storage: 'x'", id="quantity"),
    pytest.param({**PV, "metadata": {}}, "PersistentVolume ?: $.metadata.name", id="no name"),
    pytest.param({"metadata": {"name": "x"}}, "an object without a kind", id="no kind"),
    pytest.param(listed("List", 5), "an object without a kind", id="an item that is no object"),
    pytest.param(listed("PodList", 5), "Pod ?: $", id="an item of a typed list that is no object"),
    pytest.param([5], "line 2: found a list, not an object", id="a bare list of what is no object"),
]


@pytest.mark.parametrize(("document", "message"), FAULTS)
def test_names_what_it_cannot_read_and_continues(document: object, message: str) -> None:
    objects = read(NODE, document, PVC)
    assert keys(objects) == ["default/data", "n1"]
    [fault] = objects.faults
    assert fault.startswith("standard input")
    assert message in fault


def test_of_two_with_the_same_name_the_later_counts() -> None:
    objects = read(
        PV, PVC, {**PV, "spec": {"capacity": {"storage": 2}}}, {**PVC, "metadata": {"name": "data", "namespace": "x"}}
    )
    assert objects.of(Volume)["pv-1"].capacity == 2 * 10**9
    assert objects.duplicates == ["Volume pv-1 is in the input twice; the later one counts"]


def test_reads_several_files_and_the_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(PV))
    (tmp_path / "b.yaml").write_text("kind: Node\nmetadata: {name: n2}\n")
    (tmp_path / "empty").write_text("")
    files = [str(tmp_path / "a.json"), "-", str(tmp_path / "empty"), str(tmp_path / "b.yaml")]
    assert keys(read_dump(files, io.BytesIO(json.dumps(NODE).encode()), NOW)) == ["pv-1", "n1", "n2"]


def absent(folder: Path) -> Path:
    return folder / "absent.yaml"


def directory(folder: Path) -> Path:
    return folder


def binary(folder: Path) -> Path:
    (folder / "x.bin").write_bytes(b"\x00\x01")
    return folder / "x.bin"


def empty(folder: Path) -> Path:
    (folder / "x.yaml").write_text("# only a comment\n---\n")
    return folder / "x.yaml"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (absent, "No such file or directory"),
        (directory, "nothing is in"),
        (binary, "Expected YAML or JSON objects"),
        (empty, "nothing is in .*x.yaml. Expected YAML or JSON objects"),
    ],
)
def test_says_which_file_cannot_be_read(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    path = make(tmp_path)
    with pytest.raises(WhyError, match=message) as caught:
        read_dump([str(path)], io.BytesIO(), NOW)
    assert str(path) in str(caught.value)


def test_a_kind_of_another_api_is_not_read() -> None:
    """Longhorn and others have a Node too: it does not show which nodes the cluster has."""
    facts = read(PV, {**NODE, "apiVersion": "longhorn.io/v1beta2"}).facts
    assert Source.NODES in facts.skipped


@pytest.mark.parametrize("newer_first", [True, False])
def test_of_two_with_the_same_name_the_newer_counts(*, newer_first: bool) -> None:
    old = {**PV, "metadata": {"name": "pv-1", "resourceVersion": "7"}}
    new = {**old, "metadata": {"name": "pv-1", "resourceVersion": "8"}, "spec": {"capacity": {"storage": 2}}}
    dump = read(*((new, old) if newer_first else (old, new)))
    assert dump.of(Volume)["pv-1"].capacity == 2 * 10**9
    assert dump.duplicates == []


REJECTED = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "pods is forbidden", "code": 403}


def test_an_error_of_the_api_server_is_quoted() -> None:
    with pytest.raises(WhyError, match="standard input: the API server's answer instead of objects: pods is forb"):
        read(REJECTED)


@pytest.mark.parametrize(
    ("status", "says"), [(REJECTED, "pods is forbidden"), ({"kind": "Status"}, "no message")], ids=["error", "bare"]
)
def test_beside_objects_it_is_skipped(status: object, says: str) -> None:
    objects = read(status, POD)
    assert keys(objects) == ["default/web"]
    assert objects.faults == [f"standard input: the API server's answer instead of objects: {says}"]


def faults_of(text: str) -> Sequence[str]:
    """What is wrong with an input, whether or not anything in it could be read."""
    try:
        return read_dump(["-"], io.BytesIO(text.encode()), NOW).faults
    except WhyError as error:
        return [str(error)]


@pytest.mark.parametrize("depth", [300, 450, 490, 500, 960, 980, 990, 1000, 2000, 200_000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        pytest.param('{"kind":"List","items":[', "]}", id="lists in lists"),
        pytest.param('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"x":[', "]}}", id="fields"),
    ],
)
def test_what_is_nested_too_deeply_is_an_error_of_the_input(depth: int, opening: str, closing: str) -> None:
    faults = faults_of(f"{opening * depth}{closing * depth}")
    assert all("nested too deeply" in fault for fault in faults)
    assert faults or depth < 1000
