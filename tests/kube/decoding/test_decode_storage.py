from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kube.decoding.decode import (
    decode_attachment,
    decode_capacity,
    decode_claim,
    decode_class,
    decode_driver,
    decode_volume,
)
from kube.objects.labels import LabelSelector, NodeSelector, Requirement
from kube.objects.model import (
    Claim,
    ClaimReference,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kube.rules.quantity import parse_quantity
from tests import builders

METADATA = {
    "name": "x",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def raw(metadata: dict[str, Any] | None = None, **fields: Any) -> bytes:
    return msgspec.json.encode({"metadata": METADATA | (metadata or {})} | fields)


def claim(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> Claim:
    return decode_claim(raw(metadata, spec=spec))


def volume(spec: dict[str, Any], metadata: dict[str, Any] | None = None, **fields: Any) -> Volume:
    return decode_volume(raw(metadata, spec=spec, **fields))


def test_a_claim() -> None:
    claim = decode_claim(
        raw(
            {"annotations": {"volume.kubernetes.io/selected-node": "n1"}, "deletionTimestamp": "2026-01-02T00:00:00Z"},
            spec={
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "resources": {"requests": {"storage": "1.5Gi"}},
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeName": "pv",
                "volumeAttributesClassName": "gold",
                "selector": {
                    "matchLabels": {"b": "2", "a": "1"},
                    "matchExpressions": [{"key": "c", "operator": "Exists"}],
                },
            },
            status={"phase": "Bound"},
        )
    )
    assert claim == Claim(
        namespace="ns",
        name="x",
        uid="u",
        resource_version=7,
        storage_class="fast",
        request=parse_quantity("1536Mi"),
        access_modes=("ReadWriteOnce", "ReadOnlyMany"),
        volume_mode="Block",
        selector=LabelSelector((("a", "1"), ("b", "2")), (Requirement("c", "Exists"),)),
        attributes_class="gold",
        volume_name="pv",
        phase="Bound",
        deleting=True,
        created=builders.EPOCH,
        annotations=(("volume.kubernetes.io/selected-node", "n1"),),
    )


def test_a_claim_that_says_nothing_has_the_defaults() -> None:
    assert claim({}) == Claim("ns", "x", "u", 7, created=builders.EPOCH)


@pytest.mark.parametrize(
    ("spec", "annotations", "effective"),
    [
        pytest.param({}, {}, None, id="neither"),
        pytest.param({"storageClassName": ""}, {}, "", id="empty-is-not-absent"),
        pytest.param({"storageClassName": "new"}, {}, "new", id="field"),
        pytest.param({"storageClassName": "new"}, {BETA_CLASS: "old"}, "old", id="annotation-wins"),
        pytest.param({"storageClassName": "new"}, {BETA_CLASS: ""}, "", id="annotation-wins-even-empty"),
    ],
)
def test_the_class_of_claims_and_volumes(
    spec: dict[str, Any], annotations: dict[str, str], effective: str | None
) -> None:
    assert claim(spec, {"annotations": annotations}).storage_class == effective
    assert volume(spec, {"annotations": annotations}).storage_class == effective


@pytest.mark.parametrize(
    ("selector", "decoded"),
    [({}, LabelSelector()), (None, None), ({"matchLabels": None, "matchExpressions": None}, LabelSelector())],
    ids=["empty-matches-all", "null-is-none", "nulls-are-empty"],
)
def test_an_empty_selector_is_one(selector: dict[str, Any] | None, decoded: LabelSelector | None) -> None:
    assert claim({"selector": selector}).selector == decoded


def test_a_volume() -> None:
    volume = decode_volume(
        raw(
            {"labels": {"tier": "gold"}, "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            spec={
                "capacity": {"storage": "200E", "other": "not a quantity, and not read"},
                "accessModes": ["ReadWriteOncePod"],
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "ns", "name": "data", "uid": "c", "resourceVersion": "5"},
                "csi": {"driver": "disk.csi.example", "volumeHandle": "h", "volumeAttributes": {"a": "b"}},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": builders.ZONE, "operator": "In", "values": ["a"]}]}
                        ]
                    }
                },
            },
            status={"phase": "Bound"},
        )
    )
    assert volume == Volume(
        name="x",
        uid="u",
        resource_version=7,
        storage_class="fast",
        capacity=200 * 10**27,
        access_modes=("ReadWriteOncePod",),
        volume_mode="Block",
        attributes_class="gold",
        node_affinity=builders.node_selector({builders.ZONE: "a"}),
        claim=ClaimReference("ns", "data", "c"),
        phase="Bound",
        reclaim_policy="Delete",
        source="csi",
        driver="disk.csi.example",
        handle="h",
        labels=(("tier", "gold"),),
        annotations=(("pv.kubernetes.io/bound-by-controller", "yes"),),
        created=builders.EPOCH,
    )


def test_a_volume_that_says_nothing_is_not_available() -> None:
    assert volume({}) == Volume("x", "u", 7, created=builders.EPOCH)
    assert volume({}, status={"phase": None}).phase == ""


@pytest.mark.parametrize(
    ("reference", "decoded"),
    [(None, None), ({}, ClaimReference()), ({"name": "data"}, ClaimReference("", "data", ""))],
    ids=["null", "empty-is-a-reference", "without-namespace"],
)
def test_claim_references(reference: dict[str, Any] | None, decoded: ClaimReference | None) -> None:
    assert volume({"claimRef": reference}).claim == decoded


@pytest.mark.parametrize(
    ("affinity", "decoded"),
    [
        (None, None),
        ({}, None),
        ({"required": None}, None),
        ({"required": {}}, NodeSelector()),
        ({"required": {"nodeSelectorTerms": None}}, NodeSelector()),
    ],
    ids=["null", "empty", "required-null", "required-without-terms", "terms-null"],
)
def test_affinities_that_say_little(affinity: dict[str, Any] | None, decoded: NodeSelector | None) -> None:
    assert volume({"nodeAffinity": affinity}).node_affinity == decoded


@pytest.mark.parametrize(
    "name", ["csi", "local", "hostPath", "nfs", "iscsi", "fc", "rbd", "awsElasticBlockStore", "scaleIO", "storageos"]
)
def test_what_a_volume_is(name: str) -> None:
    assert volume({name: {"anything": 1}}).source == name


def test_an_unknown_source() -> None:
    assert volume({"quantumDisk": {}}).source == ""


@pytest.mark.parametrize(
    ("annotations", "default"),
    [
        ({}, False),
        ({"storageclass.kubernetes.io/is-default-class": "true"}, True),
        ({"storageclass.beta.kubernetes.io/is-default-class": "true"}, True),
        ({"storageclass.kubernetes.io/is-default-class": "True"}, False),
    ],
)
def test_a_class(annotations: dict[str, str], default: bool) -> None:
    storage_class = decode_class(
        raw({"annotations": annotations}, provisioner="p.example", volumeBindingMode="WaitForFirstConsumer")
    )
    expected = StorageClass(
        "x", "u", 7, "p.example", "WaitForFirstConsumer", is_default=default, created=builders.EPOCH
    )
    assert storage_class == msgspec.structs.replace(expected, annotations=tuple(annotations.items()))


def test_a_class_without_binding_mode() -> None:
    assert decode_class(raw(volumeBindingMode="")).binding_mode is None


def test_when_a_report_was_written_is_when_its_values_were() -> None:
    def entry(second: int, *fields: str) -> dict[str, object]:
        return {"time": f"2026-01-01T00:00:{second:02}Z", "fieldsV1": {f"f:{name}": {} for name in fields}}

    entries = [entry(1, "nodeTopology"), entry(3, "capacity"), entry(5, "maximumVolumeSize"), entry(9, "metadata")]
    document = raw({"managedFields": [*entries, {"manager": "x"}]}, storageClassName="fast", capacity="5Gi")

    assert decode_capacity(document).written == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_the_parameters_of_a_class() -> None:
    parameters = {"type": "ssd", "csi.storage.k8s.io/fstype": "xfs"}

    assert decode_class(raw(parameters=parameters)).parameters == tuple(sorted(parameters.items()))


def test_a_capacity() -> None:
    topology = {"matchLabels": {builders.ZONE: "a"}}
    capacity = decode_capacity(
        raw(storageClassName="fast", nodeTopology=topology, capacity="5Gi", maximumVolumeSize=None)
    )
    where = LabelSelector(((builders.ZONE, "a"),))
    assert capacity == CSIStorageCapacity("ns", "x", "u", 7, "fast", where, parse_quantity("5Gi"), None)


@pytest.mark.parametrize(
    ("spec", "attach", "capacity", "prevent"),
    [
        ({}, True, False, False),
        (
            {"attachRequired": False, "storageCapacity": True, "preventPodSchedulingIfMissing": True},
            False,
            True,
            True,
        ),
    ],
    ids=["defaults", "said"],
)
def test_a_driver(spec: dict[str, Any], attach: bool, capacity: bool, prevent: bool) -> None:
    assert decode_driver(raw(spec=spec)) == CSIDriver("x", "u", 7, attach, capacity, prevent)


@pytest.mark.parametrize(("source", "name"), [({"persistentVolumeName": "pv"}, "pv"), ({"inlineVolumeSpec": {}}, "")])
def test_an_attachment(source: dict[str, Any], name: str) -> None:
    spec = {"attacher": "disk.csi.example", "nodeName": "n1", "source": source}
    attachment = decode_attachment(raw(spec=spec, status={"attached": True}))
    assert attachment == VolumeAttachment("x", "u", 7, "disk.csi.example", "n1", name, True)


def test_of_a_selector_that_is_too_large_only_the_size_is_kept() -> None:
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(500)]
    assert claim({"selector": {"matchExpressions": expressions}}).selector == LabelSelector(dropped_bytes=20_412)
    read = claim({"selector": {"matchExpressions": expressions[:300]}}).selector
    assert read is not None
    assert len(read.match_expressions) == 300


def test_access_modes_are_kept_once_each() -> None:
    modes = ["ReadWriteOnce"] * 60_000 + ["ReadOnlyMany", "ReadWriteOnce"]
    assert claim({"accessModes": modes}).access_modes == ("ReadWriteOnce", "ReadOnlyMany")


CLAIM = {"kind": "PersistentVolumeClaim", "name": "original"}


@pytest.mark.parametrize(
    ("spec", "clone_of"),
    [
        ({"dataSource": CLAIM}, "original"),
        ({"dataSource": CLAIM, "dataSourceRef": CLAIM}, "original"),
        ({"dataSourceRef": {**CLAIM, "namespace": "other"}}, ""),
        ({"dataSource": {**CLAIM, "kind": "VolumeSnapshot", "apiGroup": "snapshot.storage.k8s.io"}}, ""),
        ({"dataSourceRef": {**CLAIM, "apiGroup": "example.com"}}, ""),
        ({"dataSource": None}, ""),
    ],
)
def test_a_clone_names_the_claim_of_its_namespace_that_is_copied(spec: dict[str, Any], clone_of: str) -> None:
    assert claim(spec).clone_of == clone_of
    assert claim(spec).has_data_source == (spec != {"dataSource": None})
