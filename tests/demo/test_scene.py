"""The demo's stage is as announced: traps for a careless binder, and one pod that cannot be served."""

import json
from collections import Counter

from demo import scene as demo_scene
from demo.scene import CLASS, FAST_CLASS, HEALTHY, IMPOSSIBLE_POD, OPENING_HOURS, PATIENT, REPLICAS, SHOP, ZONES
from kube.objects.model import Claim, Pod, Record, Volume
from kube.rules.quantity import parse_quantity
from kube.rules.topology import ZONE_LABEL
from tests.builders import decoded

DOCUMENTS = [*demo_scene.storage_documents(), *demo_scene.pod_documents()]


def records() -> list[Record]:
    made = (decoded(document) for document in DOCUMENTS)
    return [record for record in made if record is not None]


def test_some_thirty_volumes_in_three_zones_some_of_them_faulty() -> None:
    volumes = demo_scene.volumes()
    assert 28 <= len(volumes) <= 40
    assert {volume.zone for volume in volumes} == set(ZONES)
    assert {volume.fault for volume in volumes} == {None, "gone", "read-only"}
    assert [volume.name for volume in volumes if volume.reported_zone != volume.zone] == ["a-small-0-elsewhere"]
    assert sum(volume.node is not None for volume in volumes) == len(ZONES)


def test_every_zone_has_one_volume_large_enough_for_an_archive() -> None:
    archive = parse_quantity("30Gi")
    large = [record for record in records() if isinstance(record, Volume) and record.capacity >= archive]
    assert len(large) == len(ZONES) == REPLICAS


def test_the_impossible_pod_wants_two_of_them() -> None:
    pod = next(record for record in records() if isinstance(record, Pod) and record.name == IMPOSSIBLE_POD)
    claims = {record.key: record for record in records() if isinstance(record, Claim)}
    assert [claims[key].request for key in pod.claim_keys] == [parse_quantity("40Gi")] * 2


def test_only_the_pod_in_annotate_mode_goes_without_a_gate() -> None:
    pods = [record for record in records() if isinstance(record, Pod)]
    assert [pod.name for pod in pods if not pod.scheduling_gates] == ["reports"]


def test_the_smallest_volumes_that_fit_are_the_faulty_ones() -> None:
    for size in ("10Gi", "20Gi"):
        wanted = parse_quantity(size)
        first = {
            zone: min(
                (parse_quantity(volume.size), volume.name, volume.note)
                for volume in demo_scene.volumes()
                if volume.zone == zone and volume.storage_class == CLASS and parse_quantity(volume.size) >= wanted
            )
            for zone in ZONES
        }
        assert all(note != HEALTHY for _, _, note in first.values()), first


def test_the_shop_needs_every_volume_of_its_class_and_the_smallest_becomes_unhealthy() -> None:
    fast = [volume for volume in demo_scene.volumes() if volume.storage_class == FAST_CLASS]
    (shop,) = demo_scene.shop_documents()
    (template,) = shop["spec"]["volumeClaimTemplates"]
    wanted = parse_quantity(template["spec"]["resources"]["requests"]["storage"])
    assert (shop["metadata"]["name"], shop["spec"]["replicas"]) == (SHOP, len(fast))
    assert all(parse_quantity(volume.size) >= wanted and volume.note == HEALTHY for volume in fast)
    assert min((parse_quantity(volume.size), volume.name) for volume in fast)[1] == PATIENT


def test_nothing_but_quarantine_keeps_kube_scheduler_from_the_volume_that_becomes_unhealthy() -> None:
    (shop,) = demo_scene.shop_documents()
    assert shop["spec"]["template"]["spec"]["schedulingGates"] == [{"name": OPENING_HOURS}]


def test_it_is_one_list_of_plain_documents() -> None:
    kinds = Counter(document["kind"] for document in json.loads(json.dumps(DOCUMENTS)))
    assert kinds["PersistentVolume"] == len(demo_scene.volumes())
    assert kinds["StatefulSet"] == 1
    assert all(
        ZONE_LABEL in str(d) or "hostname" in str(d)
        for d in DOCUMENTS
        if d["kind"][:10] == "Persistent" and d["kind"][-6:] == "Volume"
    )
