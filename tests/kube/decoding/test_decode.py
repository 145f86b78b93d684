"""What every decoder has in common: one bad object is contained and named, absence and null mean the default."""

from typing import Any

import msgspec
import pytest

from kube.decoding.decode import DECODERS, MalformedObject, decode_claim, decode_volume, decoders
from kube.decoding.decode_parts import MAX_ANNOTATION_CHARACTERS, MAX_OWN_ANNOTATION_CHARACTERS
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Volume, value_of

NEED_A_SPEC = {"PersistentVolumeClaim", "PersistentVolume", "Pod", "VolumeAttachment", "StatefulSet"}


def raw(document: object) -> bytes:
    return msgspec.json.encode(document)


def minimal(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "x", "namespace": "ns", "resourceVersion": "7"}, "spec": {}} | fields


def rejection(kind: str, body: bytes) -> MalformedObject:
    with pytest.raises(MalformedObject) as caught:
        DECODERS[kind](body)
    return caught.value


@pytest.mark.parametrize("kind", DECODERS)
class TestEveryKind:
    def test_has_its_name_uid_and_version(self, kind: str) -> None:
        metadata = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
        record = DECODERS[kind](raw(minimal(kind, metadata=metadata)))
        assert (record.name, record.uid, record.resource_version) == ("x", "u", 7)
        assert getattr(record, "namespace", "ns") == "ns"

    def test_null_is_absence_everywhere(self, kind: str) -> None:
        nulls = {"uid": None, "labels": None, "annotations": None, "creationTimestamp": None, "deletionTimestamp": None}
        others = dict.fromkeys(("status", "provisioner", "volumeBindingMode", "capacity", "nodeTopology"))
        sparse = minimal(kind, metadata={"name": "x", **nulls}, **others)
        assert DECODERS[kind](raw(sparse)) == DECODERS[kind](raw({"metadata": {"name": "x"}, "spec": {}}))

    def test_a_spec_is_required_only_by_kinds_that_need_it(self, kind: str) -> None:
        for body in ({"metadata": {"name": "x"}}, {"metadata": {"name": "x"}, "spec": None}):
            if kind in NEED_A_SPEC:
                assert rejection(kind, raw(body)).path == "$.spec"
            else:
                assert DECODERS[kind](raw(body)).name == "x"

    @pytest.mark.parametrize(
        ("body", "path"),
        [
            pytest.param(b"", "$", id="nothing"),
            pytest.param(b"<html>", "$", id="html"),
            pytest.param(b"[]", "$", id="array"),
            pytest.param(b"null", "$", id="null"),
            pytest.param(b'{"metadata":{"name":"x"', "$", id="truncated"),
            pytest.param(b'{"metadata":{"name":"\xff"}}', "$", id="not-utf-8"),
            pytest.param(b"[" * 100_000, "$", id="deep"),
            pytest.param(b"{}", "$.metadata.name", id="no-metadata"),
            pytest.param(b'{"metadata":{"name":""},"spec":{}}', "$.metadata.name", id="no-name"),
            pytest.param(b'{"metadata":{"name":5},"spec":{}}', "$.metadata.name", id="name-is-a-number"),
            pytest.param(b'{"metadata":[],"spec":{}}', "$.metadata", id="metadata-is-an-array"),
            pytest.param(
                b'{"metadata":{"name":"x","resourceVersion":"new"},"spec":{}}',
                "$.metadata.resourceVersion",
                id="version",
            ),
            pytest.param(
                b'{"metadata":{"name":"x","resourceVersion":"' + b"9" * 5000 + b'"},"spec":{}}',
                "$.metadata.resourceVersion",
                id="version-too-long",
            ),
        ],
    )
    def test_what_cannot_be_read_is_rejected(self, kind: str, body: bytes, path: str) -> None:
        assert rejection(kind, body).path == path


@pytest.mark.parametrize(
    ("kind", "change", "path", "problem"),
    [
        ("PersistentVolume", {"spec": 5}, "$.spec", "Expected `object | null`, got `int`"),
        (
            "PersistentVolume",
            {"spec": {"capacity": {"storage": "ten"}}},
            "$.spec.capacity.storage",
            "'ten' is not a quantity",
        ),
        (
            "PersistentVolume",
            {"spec": {"accessModes": "ReadWriteOnce"}},
            "$.spec.accessModes",
            "Expected `array | null`",
        ),
        ("PersistentVolume", {"spec": {"accessModes": [1]}}, "$.spec.accessModes[0]", "got `int`"),
        ("PersistentVolume", {"spec": {"claimRef": "ns/x"}}, "$.spec.claimRef", "got `str`"),
        ("PersistentVolume", {"spec": {"local": True}}, "$.spec.local", "got `bool`"),
        ("PersistentVolume", {"spec": {"nodeAffinity": []}}, "$.spec.nodeAffinity", "Expected `object`, got `array`"),
        (
            "PersistentVolume",
            {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"values": [2]}]}]}}}},
            "$.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]",
            "got `int`",
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"selector": {"matchLabels": {"a": 1}}}},
            "$.spec.selector.matchLabels",
            "got `int`",
        ),
        ("PersistentVolumeClaim", {"spec": {"volumeMode": {}}}, "$.spec.volumeMode", "got `object`"),
        (
            "PersistentVolumeClaim",
            {"metadata": {"name": "x", "creationTimestamp": "yesterday"}},
            "$.metadata.creationTimestamp",
            "RFC3339",
        ),
        (
            "PersistentVolumeClaim",
            {"metadata": {"name": "x", "annotations": {"a": 1}}},
            "$.metadata.annotations",
            "got `int`",
        ),
        ("Node", {"metadata": {"name": "x", "labels": ["a"]}}, "$.metadata.labels", "got `array`"),
        ("Node", {"status": {"allocatable": {"cpu": "lots"}}}, "$.status.allocatable.cpu", "'lots' is not a quantity"),
        ("Pod", {"spec": {"priority": "high"}}, "$.spec.priority", "got `str`"),
        (
            "Pod",
            {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}},
            "$.spec.containers[c].resources.requests.cpu",
            "'x' is not a quantity",
        ),
        ("CSIStorageCapacity", {"maximumVolumeSize": "big"}, "$.maximumVolumeSize", "'big' is not a quantity"),
        (
            "CSINode",
            {"spec": {"drivers": [{"allocatable": {"count": "9"}}]}},
            "$.spec.drivers[0].allocatable.count",
            "got `str`",
        ),
    ],
)
def test_names_the_field_and_the_problem(kind: str, change: dict[str, Any], path: str, problem: str) -> None:
    rejected = rejection(kind, raw(minimal(kind) | change))
    assert rejected.path.startswith(path)
    assert problem in rejected.problem
    assert path in str(rejected)


def test_names_the_object() -> None:
    rejected = rejection("PersistentVolumeClaim", raw(minimal("PersistentVolumeClaim", spec=5)))
    assert (rejected.kind, rejected.name, rejected.resource_version) == ("PersistentVolumeClaim", "ns/x", "7")
    assert str(rejected).startswith("PersistentVolumeClaim ns/x: $.spec: ")


@pytest.mark.parametrize(
    ("metadata", "name"),
    [({"name": ["x"]}, "?"), ({"namespace": "ns", "name": 5}, "ns"), ({"name": "x" * 5000}, "x" * 300)],
)
def test_names_the_object_as_well_as_it_can(metadata: dict[str, Any], name: str) -> None:
    assert rejection("PersistentVolumeClaim", raw({"metadata": metadata, "spec": 5})).name == name


class TestAnnotations:
    def kept(self, annotations: dict[str, Any], own_prefix: str = "scheduler.cloud.example/") -> dict[str, str]:
        document = minimal("PersistentVolume", metadata={"name": "x", "annotations": annotations})
        volume = decoders(own_prefix)["PersistentVolume"](raw(document))
        assert isinstance(volume, Volume)
        return dict(volume.annotations)

    def test_keeps_ours_and_those_kubernetes_binds_by(self) -> None:
        wanted = {
            "scheduler.cloud.example/bound-at": "2026-01-01T00:00:00Z",
            "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/selected-node": "n1",
            "volume.beta.kubernetes.io/storage-class": "",
        }
        assert self.kept(wanted | {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}) == wanted

    def test_our_prefix_can_be_another(self) -> None:
        both = {"scheduler.cloud.example/mode": "off", "storage.corp.example/mode": "prebind"}
        assert self.kept(both, "storage.corp.example/") == {"storage.corp.example/mode": "prebind"}

    def test_too_long_is_absent_if_it_is_ours(self) -> None:
        fits, too_long = "x" * MAX_ANNOTATION_CHARACTERS, "x" * (MAX_ANNOTATION_CHARACTERS + 1)
        ours = {"scheduler.cloud.example/reserved-zone": fits, "scheduler.cloud.example/reserved-volume": too_long}
        assert self.kept(ours) == {"scheduler.cloud.example/reserved-zone": fits}

    def test_of_kubernetes_own_the_beginning_is_kept(self) -> None:
        fits, too_long = "x" * MAX_ANNOTATION_CHARACTERS, "x" * (MAX_ANNOTATION_CHARACTERS + 1)
        assert self.kept({SELECTED_NODE: fits, BIND_COMPLETED: too_long}) == dict.fromkeys(
            (SELECTED_NODE, BIND_COMPLETED), fits
        )

    def test_null_is_empty(self) -> None:
        assert self.kept({SELECTED_NODE: None}) == {SELECTED_NODE: ""}

    def test_a_megabyte_of_others_is_not_kept(self) -> None:
        assert self.kept({"note": "x" * 2**20, BIND_COMPLETED: "yes"}) == {BIND_COMPLETED: "yes"}

    def test_only_keys_that_some_rule_reads_are_kept(self) -> None:
        assert self.kept({"pv.kubernetes.io/other": "x", "volume.kubernetes.io/other": "y"}) == {}

    def test_any_number_with_our_prefix_is_kept_only_as_far_as_there_is_room(self) -> None:
        many = {f"scheduler.cloud.example/x{number}": "x" * MAX_ANNOTATION_CHARACTERS for number in range(60)}
        real = {"scheduler.cloud.example/reserved-volume": "pv", BIND_COMPLETED: "yes"}
        kept = self.kept(many | real)
        assert real.items() <= kept.items()
        assert sum(len(key) + len(value) for key, value in kept.items()) <= MAX_OWN_ANNOTATION_CHARACTERS + 100


def test_equal_parts_of_objects_are_one_object() -> None:
    document = minimal("PersistentVolume", metadata={"name": "x", "labels": {"tier": "gold"}})
    document["spec"] = {"accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {"nodeSelectorTerms": []}}}
    first, second = decode_volume(raw(document)), decode_volume(raw(document))
    assert first.labels is second.labels
    assert first.access_modes is second.access_modes
    assert first.node_affinity is second.node_affinity


def test_claims_keep_the_annotation_that_names_their_class() -> None:
    metadata = {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    claim = decode_claim(raw(minimal("PersistentVolumeClaim", metadata=metadata, spec={"storageClassName": "new"})))
    assert claim.storage_class == "old"
    assert value_of(claim.annotations, "volume.beta.kubernetes.io/storage-class") == "old"


def test_a_beta_class_that_is_too_long_does_not_make_the_field_count() -> None:
    """Quota counts the claim for the class that Kubernetes sees: the field must not give it a volume of another one."""
    metadata = {
        "name": "x",
        "annotations": {"volume.beta.kubernetes.io/storage-class": "x" * (MAX_ANNOTATION_CHARACTERS + 1)},
    }
    for kind, decode in (("PersistentVolumeClaim", decode_claim), ("PersistentVolume", decode_volume)):
        record = decode(raw(minimal(kind, metadata=metadata, spec={"storageClassName": "gold"})))
        assert (record.storage_class or "").startswith("xxx")
