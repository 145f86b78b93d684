"""From facts to rows: states, places, free capacity, what waits, and what changed since."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from binder.health.published_sweeps import sweeps_annotation
from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from csi.health.complete_sweep import SweepReport
from tests.builders import ZONE
from tests.why.view.clusters import DRIVER, PREFIX, Cluster, small
from why.explain.answering import report_on
from why.facts.facts import Source
from why.reading.gathering import Gathering
from why.view.model.changes import changes_between
from why.view.model.nodes import size_text
from why.view.model.view import ClassRow, NodeRow, PageView, PendingRow, VolumeRow, VolumeState
from why.view.model.view_builder import ViewBuilder
from why.view.model.waiting import causes_of

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class Built:
    """A view of a cluster, made again after each change by the same builder."""

    def __init__(self, cluster: Cluster) -> None:
        self._gathering = Gathering(DEFAULT_PREFIX)
        self._builder = ViewBuilder("test", Annotations(), live=True)
        self.take(*cluster.objects)

    def take(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            self._gathering.take(msgspec.json.encode(document), document["apiVersion"], document["kind"], "test")
        assert not self._gathering.faults

    def view(self, now: datetime = NOW, *, explained: bool = True) -> PageView:
        facts = self._gathering.facts(now, set(Source), {}, everywhere=True)
        causes = causes_of(facts, report_on(facts, (), "")) if explained else {}
        return self._builder.view(facts, causes, {"leases": "forbidden"})


def cluster() -> Cluster:
    """Two zones with a node each."""
    made = Cluster(NOW)
    made.node("a1", "a")
    made.node("b1", "b")
    made.storage_class("static", "kubernetes.io/no-provisioner")
    made.storage_class("fast", DRIVER)
    return made


def volume_row(made: Cluster, now: datetime = NOW) -> VolumeRow:
    return Built(made).view(now).volumes["pv"]


@pytest.mark.parametrize(
    ("how", "state"),
    [
        pytest.param({}, VolumeState.AVAILABLE, id="free"),
        pytest.param({"claim": "web/data"}, VolumeState.BOUND, id="bound"),
        pytest.param({"claim": "web/data", "phase": "Available"}, VolumeState.RESERVED, id="claimRef set, not bound"),
        pytest.param({"claim": "web/data", "phase": "Released"}, VolumeState.RELEASED, id="its claim is gone"),
        pytest.param({"phase": "Failed"}, VolumeState.FAILED, id="failed"),
        pytest.param({"phase": ""}, VolumeState.PENDING, id="no phase yet"),
    ],
)
def test_the_state_of_a_volume(how: dict[str, Any], state: VolumeState) -> None:
    made = cluster()
    made.volume("pv", "a", **how)
    assert volume_row(made).state is state


def test_a_reservation_holds_a_volume_until_it_expires() -> None:
    made = cluster()
    made.reserved("pv", "a", "web/data")
    built = Built(made)
    row = built.view().volumes["pv"]
    assert (row.state, row.claim, row.until) == (VolumeState.RESERVED, "web/data", NOW + timedelta(minutes=9))
    later = built.view(NOW + timedelta(minutes=10)).volumes["pv"]
    assert (later.state, later.claim, later.until) == (VolumeState.AVAILABLE, "", None)


def test_health_comes_with_its_reason() -> None:
    made = cluster()
    made.volume("pv", "a", claim="web/data", health="Degraded", reason="HighLatency")
    row = volume_row(made)
    assert (row.health, row.unhealthy, row.reason) == ("Degraded", True, "HighLatency")


def swept(at: datetime, *exceptions: str) -> dict[str, Any]:
    """The Lease of the process that probes the driver, with the report of a sweep that ended then."""
    report = SweepReport(
        DRIVER,
        at - timedelta(seconds=2),
        at,
        timedelta(seconds=60),
        10_000,
        volumes=3,
        exceptions=frozenset(exceptions),
    )
    annotations = sweeps_annotation({DRIVER: report}, Annotations())
    metadata = {"namespace": "system", "name": "agent", "uid": "agent", "annotations": annotations}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def test_a_volume_without_a_report_is_as_its_drivers_last_sweep_says() -> None:
    made = cluster()
    made.volume("pv", "a")
    made.volume("odd", "a")
    made.volume("ill", "a", health="Degraded")
    built = Built(made)
    assert {name: row.health for name, row in built.view().volumes.items()} == {"pv": "", "odd": "", "ill": "Degraded"}
    built.take(swept(NOW, "odd"))
    first = built.view()
    assert {name: row.health for name, row in first.volumes.items()} == {
        "pv": "Healthy",
        "odd": "",
        "ill": "Degraded",
    }
    built.take(swept(NOW + timedelta(seconds=60), "odd"))
    assert changes_between(first, built.view(NOW + timedelta(seconds=61))) is None
    outdated = built.view(NOW + timedelta(minutes=10))
    assert outdated.volumes["pv"].health == ""


def test_a_quarantined_volume_belongs_to_no_claim() -> None:
    made = cluster()
    made.quarantined("pv", "a", "DeviceNotFound")
    row = volume_row(made)
    assert (row.state, row.claim, row.reason) == (VolumeState.QUARANTINED, "", "Inaccessible: DeviceNotFound")


def test_a_volume_is_where_it_is_attached_used_or_local() -> None:
    made = cluster()
    made.used("pv", "a", "web/data", "web-0", "a1")
    made.volume("pv-local", "b", node="b1")
    made.volume("pv-free", "a")
    volumes = Built(made).view().volumes
    assert volumes["pv"].nodes == ("a1",)
    assert volumes["pv"].pods == ("web/web-0",)
    assert (volumes["pv-local"].nodes, volumes["pv-local"].local) == (("b1",), True)
    assert volumes["pv-free"].nodes == ()


def test_a_local_volume_is_in_the_zone_of_its_node() -> None:
    """Its affinity names the node only; the node may be read after it, and may be given another zone."""
    made = cluster()
    made.volume("pv-local", "", node="b1")
    nodes = [each for each in made.objects if each["kind"] == "Node"]
    made.objects[:] = [each for each in made.objects if each["kind"] != "Node"]
    built = Built(made)
    assert built.view().volumes["pv-local"].zone == ""
    for each in nodes:
        built.take(each)
    assert built.view().volumes["pv-local"].zone == "b"
    (own,) = (each for each in nodes if each["metadata"]["name"] == "b1")
    own["metadata"]["labels"] |= {ZONE: "c"}
    own["metadata"]["resourceVersion"] = "999"
    built.take(own)
    assert built.view().volumes["pv-local"].zone == "c"


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({}, "Ready"),
        ({"cordoned": True}, "Cordoned"),
        ({"taint": "node.kubernetes.io/not-ready"}, "NotReady"),
        ({"taint": "node.kubernetes.io/unreachable", "cordoned": True}, "Unreachable"),
        ({"taint": "dedicated"}, "Ready"),
    ],
)
def test_the_state_of_a_node(how: dict[str, Any], state: str) -> None:
    made = Cluster(NOW)
    made.node("n", "a", limit=3, **how)
    made.used("pv", "a", "web/data", "web-0", "n")
    row = Built(made).view().nodes["n"]
    assert row == NodeRow("n", "a", state, attached=1, limit=3, driver=DRIVER, pods=1)


def test_free_capacity_is_of_healthy_available_volumes_and_of_what_drivers_can_provision() -> None:
    made = cluster()
    for name, size in (("x", "10Gi"), ("y", "30Gi")):
        made.volume(name, "a", "static", size)
    made.volume("ill", "a", "static", "99Gi", health="Degraded")
    made.volume("taken", "a", "static", "99Gi", claim="web/data")
    made.objects.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "c", "namespace": "kube-system", "uid": "c", "resourceVersion": "1"},
            "storageClassName": "fast",
            "nodeTopology": {"matchLabels": {ZONE: "b"}},
            "capacity": "2Ti",
        }
    )
    gi = 2**30
    assert Built(made).view().classes == {
        "a/static": ClassRow("a", "static", 2, 40 * gi, "40Gi", "30Gi"),
        "b/fast": ClassRow("b", "fast", size="0", largest="0", driver_bytes=2048 * gi, driver_size="2Ti"),
    }


def pending(made: Cluster, key: str) -> PendingRow:
    return Built(made).view().pending[key]


def test_a_claim_could_go_where_a_volume_fits_it() -> None:
    made = cluster()
    made.volume("pv", "b", "static", "50Gi")
    made.volume("small", "a", "static", "5Gi")
    made.claim("web/data", storage_class="static")
    row = pending(made, "pvc/web/data")
    assert (row.zones, row.everywhere, row.code, row.problem) == (("b",), False, "WaitForFirstConsumer", False)


def test_a_claim_that_fits_nowhere_says_why() -> None:
    made = cluster()
    made.volume("small", "a", "static", "5Gi")
    made.claim("web/data", storage_class="static")
    made.pod("web/web-0", ("data",))
    row = pending(made, "pvc/web/data")
    assert (row.zones, row.everywhere, row.code, row.problem) == ((), False, "StaticOnlyNoMatch", True)
    assert row.pod == "web/web-0"


def test_a_class_that_makes_volumes_anywhere_rules_out_no_zone_but_its_pod_may() -> None:
    made = cluster()
    made.claim("web/free")
    made.claim("web/tied")
    made.pod("web/tied-0", ("tied",), nodeSelector={ZONE: "b"})
    rows = Built(made).view().pending
    assert (rows["pvc/web/free"].zones, rows["pvc/web/free"].everywhere) == (("a", "b"), True)
    assert (rows["pvc/web/tied"].zones, rows["pvc/web/tied"].everywhere) == (("b",), False)


def test_a_pod_waits_in_the_zone_of_its_volume() -> None:
    made = small()
    row = Built(made).view().pending["pod/shop/orders-0"]
    assert (row.zones, row.code) == (("us-east-1a",), "TopologyConflict")
    assert "pvc/shop/data-orders-0" not in Built(made).view().pending


def pairs(made: Cluster, *claims: str) -> PendingRow:
    """A pod with these claims of class static, where there are one volume in zone a and two in zone b, or of fast."""
    for name, zone, size in (("one", "a", "50Gi"), ("two", "b", "20Gi"), ("three", "b", "50Gi")):
        made.volume(name, zone, "static", size)
    for claim in claims:
        made.claim(f"web/{claim}", storage_class="fast" if claim == "made" else "static")
    made.pod("web/web-0", claims)
    return Built(made).view().pending["pod/web/web-0"]


@pytest.mark.parametrize(
    ("claims", "zones"), [(("data",), ("a", "b")), (("data", "log"), ("b",)), (("data", "log", "more"), ())]
)
def test_a_pod_could_go_where_each_of_its_claims_gets_a_volume_of_its_own(
    claims: tuple[str, ...], zones: tuple[str, ...]
) -> None:
    made = cluster()
    row = pairs(made, *claims)
    assert (row.zones, row.everywhere) == (zones, False)
    assert Built(made).view().pending["pvc/web/data"].zones == zones


def test_a_claim_for_which_a_volume_can_be_made_takes_none_from_the_others() -> None:
    made = cluster()
    assert pairs(made, "data", "made").zones == ("a", "b")


def test_a_volume_that_is_in_no_zone_counts_in_each_and_once() -> None:
    made = cluster()
    made.volume("anywhere", "", "static", "50Gi")
    assert pairs(made, "data", "log").zones == ("a", "b")
    other = cluster()
    other.volume("anywhere", "", "static", "50Gi")
    assert pairs(other, "data", "log", "more").zones == ("b",)


def test_a_cause_that_changes_alone_changes_the_rows() -> None:
    built = Built(small())
    before = built.view(explained=False)
    after = built.view()
    assert not any(row.code for row in before.pending.values())
    assert all(row.code for row in after.pending.values() if not row.node)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (2**50, "1Pi"),
        (3 * 2**39, "1.5Ti"),
        (2**40, "1Ti"),
        (2**30 - 1, "1024Mi"),
        (2**20, "1Mi"),
        (2**10, "1Ki"),
        (1023, "1023"),
    ],
)
def test_a_size_has_one_decimal_at_most(amount: int, text: str) -> None:
    assert size_text(amount) == text


def test_a_pod_that_has_a_node_is_placed() -> None:
    made = small()
    rows = Built(made).view().pending.values()
    assert all(not row.node for row in rows if row.zones)


def test_a_change_is_the_rows_that_differ() -> None:
    made = cluster()
    made.volume("kept", "a", "static")
    made.volume("changed", "a", "static")
    built = Built(made)
    old = built.view()
    assert changes_between(old, built.view(NOW + timedelta(seconds=5))) is None
    more = Cluster(NOW)
    more.volume("changed", "a", "static", annotations={f"{PREFIX}health": "Degraded"})
    more.objects[0]["metadata"]["resourceVersion"] = "998"
    built.take(more.objects[0])
    new = built.view()
    assert new.volumes["kept"] is old.volumes["kept"]
    changes = changes_between(old, new)
    assert changes is not None
    assert changes.volumes == {"changed": new.volumes["changed"]}
    assert changes.classes == {"a/static": new.classes["a/static"]}
    assert (changes.nodes, changes.pending, changes.gone) == ({}, {}, {})
    back = changes_between(
        new, PageView(**{name: getattr(old, name) for name in old.__struct_fields__} | {"volumes": {}})
    )
    assert back is not None
    assert set(back.gone["volumes"]) == {"kept", "changed"}


def test_what_was_not_read_is_named() -> None:
    (unreadable,) = Built(cluster()).view().unreadable
    assert (unreadable.resource, unreadable.because) == ("leases", "forbidden")


def test_rows_follow_every_object_that_they_are_made_of() -> None:
    """What is remembered of a row must not outlive the pod, the attachment or the claim that it speaks of."""
    made = cluster()
    made.used("pv", "a", "web/data", "web-0", "a1")
    built = Built(made)
    assert built.view().volumes["pv"].nodes == ("a1",)
    moved = Cluster(NOW)
    moved.pod("web/web-0", ("data",), "b1")
    moved.objects[0]["metadata"]["resourceVersion"] = "998"
    built.take(moved.objects[0])
    assert built.view().volumes["pv"].nodes == ("a1", "b1")
    attachment = next(each for each in made.objects if each["kind"] == "VolumeAttachment")
    attachment["spec"]["nodeName"] = "b1"
    attachment["metadata"]["resourceVersion"] = "999"
    built.take(attachment)
    assert built.view().volumes["pv"].nodes == ("b1",)
    assert built.view().nodes["b1"].attached == 1
