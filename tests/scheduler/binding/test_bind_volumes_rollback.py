"""How waiting for a bind ends, and what is taken back then: nothing of which anything came."""

from collections.abc import Callable

import pytest

from binder.matching.rejection import Reason
from tests.fake_clock import settle
from tests.fakes.objects import claim_object, volume_object
from tests.running_task import running
from tests.scheduler.storage import CLAIMS, LIMIT, REFERENCE, VOLUMES, Cluster, outcome

SELECTED = "volume.kubernetes.io/selected-node"


def two_claims() -> Cluster:
    """One with a volume that exists, one that has a volume made."""
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    cluster.put(claim_object("more", storage_class="made"))
    return cluster


def delete_pod(cluster: Cluster) -> None:
    cluster.server.remove("pods", "default/web")


def end_pod(cluster: Cluster) -> None:
    cluster.change("pods", "default/web", "metadata", deletionTimestamp="2026-01-01T00:00:00Z")


def replace_pod(cluster: Cluster) -> None:
    cluster.change("pods", "default/web", "metadata", uid="another")


def delete_claim(cluster: Cluster) -> None:
    cluster.server.remove(CLAIMS, "default/data")


def end_claim(cluster: Cluster) -> None:
    cluster.change(CLAIMS, "default/data", "metadata", deletionTimestamp="2026-01-01T00:00:00Z")


def lose_claim(cluster: Cluster) -> None:
    cluster.change(CLAIMS, "default/data", "status", phase="Lost")


def delete_node(cluster: Cluster) -> None:
    cluster.server.remove("nodes", "node-a")


def move_node(cluster: Cluster) -> None:
    cluster.change("nodes", "node-a", "metadata", labels={"topology.kubernetes.io/zone": "b"})


def reset_reference(cluster: Cluster) -> None:
    cluster.change(VOLUMES, "pv-1", "spec", claimRef=None)


def drop_uid(cluster: Cluster) -> None:
    """What unbindVolume of the PV controller leaves of a claimRef that it takes for a user's."""
    cluster.change(VOLUMES, "pv-1", "spec", claimRef=REFERENCE | {"name": "data"})


def delete_volume(cluster: Cluster) -> None:
    cluster.server.remove(VOLUMES, "pv-1")


def bind_out_of_reach(cluster: Cluster) -> None:
    cluster.put(volume_object("pv-b", zone="b"))
    cluster.kubernetes_binds("data", "pv-b")


def give_up(cluster: Cluster) -> None:
    cluster.change(CLAIMS, "default/more", "metadata", annotations={})


def select_another(cluster: Cluster) -> None:
    cluster.annotate(CLAIMS, "default/more", **{SELECTED: "node-b"})


def make_out_of_reach(cluster: Cluster) -> None:
    cluster.put(volume_object("pvc-b", zone="b", storage_class="made"))
    cluster.kubernetes_binds("more", "pvc-b")


ENDS = [
    (delete_pod, Reason.POD_ENDED),
    (end_pod, Reason.POD_ENDED),
    (replace_pod, Reason.POD_ENDED),
    (delete_claim, Reason.CLAIM_NOT_FOUND),
    (end_claim, Reason.CLAIM_DELETING),
    (lose_claim, Reason.CLAIM_LOST),
    (delete_node, Reason.NODE_MISSING),
    (move_node, Reason.VOLUME_UNREACHABLE),
    (reset_reference, Reason.CLAIMED_BY_OTHER),
    (drop_uid, Reason.CLAIMED_BY_OTHER),
    (delete_volume, Reason.VOLUME_MISSING),
    (bind_out_of_reach, Reason.VOLUME_UNREACHABLE),
    (give_up, Reason.PROVISIONING_FAILED),
    (select_another, Reason.PROVISIONING_FAILED),
    (make_out_of_reach, Reason.VOLUME_UNREACHABLE),
]


@pytest.mark.parametrize(("event", "reason"), ENDS)
async def test_it_ends_at_once_and_everything_without_effect_is_rolled_back(
    event: Callable[[Cluster], None], reason: Reason
) -> None:
    cluster = two_claims()
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}, ["more"]))
    assert cluster.selected("more") == "node-a"
    event(cluster)
    rejection = await outcome(task)
    assert rejection is not None
    assert rejection.reason is reason
    assert instance.listening() == 0
    names = [name for plural, name in cluster.server.objects if plural == VOLUMES]
    if event is drop_uid:
        return  # somebody else's word by now
    assert "pv-1" not in names or "claimRef" not in cluster.volume("pv-1")["spec"]
    if event is not select_another:
        expected = "node-a" if event is make_out_of_reach else None
        assert cluster.selected("more") == expected


async def test_it_ends_when_its_time_is_over() -> None:
    cluster = two_claims()
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}, ["more"]))
    cluster.kubernetes_binds("data", "pv-1")
    await cluster.clock.advance(LIMIT.total_seconds() - 1)
    assert not task.done()
    await cluster.clock.advance(1)
    rejection = await outcome(task)
    assert rejection is not None
    assert (rejection.reason, rejection.offered) == (Reason.BIND_TIMEOUT, "unbound: default/more")
    assert cluster.claim("data")["spec"]["volumeName"] == "pv-1"
    assert cluster.volume("pv-1")["spec"]["claimRef"]["uid"] == cluster.uid("data")


async def test_another_volume_on_the_right_node_will_do_and_ours_is_free_again() -> None:
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    cluster.put(volume_object("pv-2"))
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    cluster.kubernetes_binds("data", "pv-2")
    assert await outcome(task) is None
    assert "claimRef" not in cluster.volume("pv-1")["spec"]


def say_bound(cluster: Cluster) -> None:
    cluster.change(VOLUMES, "pv-1", "status", phase="Bound")


def name_the_volume(cluster: Cluster) -> None:
    cluster.change(CLAIMS, "default/data", "spec", volumeName="pv-1")


def give_to_other(cluster: Cluster) -> None:
    cluster.change(VOLUMES, "pv-1", "spec", claimRef=REFERENCE | {"name": "other", "uid": "uid-other"})


@pytest.mark.parametrize("unseen", [say_bound, name_the_volume, give_to_other])
async def test_what_the_pv_controller_or_another_went_on_with_stays(unseen: Callable[[Cluster], None]) -> None:
    """The watch lags: what came of it shows only when it is read again, right before it would be taken back."""
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    cluster.server.lagging = True
    unseen(cluster)
    before = cluster.volume("pv-1")
    instance.store.pods.delete("default/web")
    assert await outcome(task) is not None
    assert cluster.volume("pv-1") == before
    assert cluster.writes() == ["pv-1"]


@pytest.mark.parametrize(
    "word", ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
)
async def test_a_volume_that_was_ordered_stays_ordered(word: str) -> None:
    """The provisioner may be at work: another node now, and a second volume could come of it."""
    cluster = two_claims()
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}, ["more"]))
    cluster.annotate(CLAIMS, "default/more", **{word: "disk.csi.example"})
    delete_pod(cluster)
    assert await outcome(task) is not None
    assert cluster.selected("more") == "node-a"


async def test_what_another_pod_in_progress_needs_is_not_rolled_back() -> None:
    cluster = two_claims()
    instance = cluster.instance()
    tasks = {}
    for pod in ("web", "twin"):
        tasks[pod] = await instance.begin(instance.placement({"data": "pv-1"}, ["more"], pod=pod))
    assert cluster.writes() == ["pv-1", "default/more"]
    delete_pod(cluster)
    assert await outcome(tasks["web"]) is not None
    assert not tasks["twin"].done()
    assert cluster.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
    cluster.server.remove("pods", "default/twin")
    assert await outcome(tasks["twin"]) is not None
    assert "claimRef" not in cluster.volume("pv-1")["spec"]
    assert cluster.selected("more") is None


async def test_what_another_writer_wrote_is_not_rolled_back() -> None:
    """kube-scheduler took the volume for another pod that uses the claim, a moment before we would have."""
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    instance = cluster.instance()
    reference = REFERENCE | {"name": "data", "uid": cluster.uid("data")}
    cluster.before("pv-1", lambda: cluster.change(VOLUMES, "pv-1", "spec", claimRef=reference))
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    delete_pod(cluster)
    assert await outcome(task) is not None
    assert cluster.volume("pv-1")["spec"]["claimRef"] == reference


async def test_a_cancelled_attempt_is_rolled_back() -> None:
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    instance = cluster.instance()
    placement = instance.placement({"data": "pv-1"})
    async with running(instance.plugin.pre_bind(placement)):
        await settle()
    assert instance.listening() == 0
    assert "claimRef" in cluster.volume("pv-1")["spec"]
    await instance.plugin.roll_back(placement)
    await instance.plugin.roll_back(placement)
    assert "claimRef" not in cluster.volume("pv-1")["spec"]
    assert cluster.writes() == ["pv-1", "pv-1"]


async def test_a_recreated_pod_keeps_what_its_predecessor_gives_up() -> None:
    """The next of a StatefulSet has the name and the claims, and is decided before the last has left."""
    cluster = Cluster()
    cluster.pair("data", "pv-1")
    instance = cluster.instance()
    before = await instance.begin(instance.placement({"data": "pv-1"}))
    replace_pod(cluster)
    after = await instance.begin(instance.placement({"data": "pv-1"}))
    assert await outcome(before) is not None
    assert cluster.writes() == ["pv-1"]
    cluster.kubernetes_binds("data", "pv-1")
    assert await outcome(after) is None
