"""PreBind against an API server in memory: what is written, what is waited for, and what ends it."""

import copy
from collections.abc import Callable

import pytest

from binder.matching.rejection import Reason
from kube.client.transport import Request
from kube.errors import Invalid, LeadershipLost, Unavailable
from tests.fake_clock import settle
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, volume_object
from tests.scheduler.storage import CLAIMS, REFERENCE, VOLUMES, Cluster, outcome

BOUND_BY = "pv.kubernetes.io/bound-by-controller"
OTHER = REFERENCE | {"namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}


def one_pair(**how: object) -> Cluster:
    cluster = Cluster()
    cluster.pair("data", "pv-1", **how)
    return cluster


def one_to_make() -> Cluster:
    cluster = Cluster()
    cluster.put(claim_object("data", storage_class="made"))
    return cluster


async def test_a_pod_without_unbound_claims_needs_nothing() -> None:
    cluster = Cluster()
    instance = cluster.instance()
    assert await instance.plugin.pre_bind(instance.placement({})) is None
    assert instance.connection.requests == 0


async def test_a_volume_is_taken_as_kube_scheduler_takes_it() -> None:
    cluster = one_pair()
    expected, claim = copy.deepcopy(cluster.volume("pv-1")), copy.deepcopy(cluster.claim("data"))
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    expected["metadata"]["annotations"] = {BOUND_BY: "yes"}
    version = claim["metadata"]["resourceVersion"]
    expected["spec"]["claimRef"] = REFERENCE | {"name": "data", "uid": cluster.uid("data"), "resourceVersion": version}
    expected["metadata"]["resourceVersion"] = cluster.volume("pv-1")["metadata"]["resourceVersion"]
    assert cluster.volume("pv-1") == expected
    assert cluster.claim("data") == claim
    assert not task.done()
    cluster.kubernetes_binds("data", "pv-1")
    assert await outcome(task) is None
    assert cluster.writes() == ["pv-1"]
    assert instance.connection.requests == 1
    assert instance.listening() == 0


async def test_a_volume_prebound_by_name_gets_the_uid_and_nothing_else() -> None:
    cluster = one_pair(claim=REFERENCE | {"name": "data"})
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    assert cluster.volume("pv-1")["spec"]["claimRef"]["uid"] == cluster.uid("data")
    assert "annotations" not in cluster.volume("pv-1")["metadata"]
    cluster.server.remove("pods", "default/web")
    assert await outcome(task) is not None
    assert cluster.volume("pv-1")["spec"]["claimRef"] == REFERENCE | {"name": "data"}


async def test_reservations_stay_for_the_controller_to_end() -> None:
    words = {"scheduler.cloud.example/reserved-for": "default/data", "somebody.example/note": "x"}
    cluster = one_pair(annotations=words)
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    assert cluster.volume("pv-1")["metadata"]["annotations"] == words | {BOUND_BY: "yes"}
    cluster.server.remove("pods", "default/web")
    await outcome(task)
    assert cluster.volume("pv-1")["metadata"]["annotations"] == words


async def test_what_is_written_already_is_not_written_again() -> None:
    cluster = one_pair()
    cluster.put(claim_object("more", storage_class="made"))
    cluster.change(VOLUMES, "pv-1", "spec", claimRef=REFERENCE | {"name": "data", "uid": cluster.uid("data")})
    cluster.annotate(CLAIMS, "default/more", **{"volume.kubernetes.io/selected-node": "node-a"})
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}, ["more"]))
    assert not task.done()
    cluster.server.remove("pods", "default/web")
    assert await outcome(task) is not None
    assert cluster.writes() == []
    assert cluster.selected("more") == "node-a"


async def test_a_claim_to_provision_gets_its_node_and_the_volume_of_the_provisioner() -> None:
    cluster = one_to_make()
    before = copy.deepcopy(cluster.claim("data"))
    instance = cluster.instance()
    task = await instance.begin(instance.placement({}, ["data"]))
    before["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-a"}
    before["metadata"]["resourceVersion"] = cluster.claim("data")["metadata"]["resourceVersion"]
    assert cluster.claim("data") == before
    # The claim may be shown to be bound before the volume is shown at all.
    cluster.change(CLAIMS, "default/data", "spec", volumeName="pvc-1")
    cluster.annotate(CLAIMS, "default/data", **{"pv.kubernetes.io/bind-completed": "yes"})
    await settle()
    assert not task.done()
    cluster.put(volume_object("pvc-1", storage_class="made", claim=REFERENCE | {"name": "data"}, phase="Bound"))
    assert await outcome(task) is None


@pytest.mark.parametrize(("status", "reason"), [(409, "Conflict"), (422, "Invalid")])
async def test_a_change_that_does_not_concern_us_is_read_and_passed_over(status: int, reason: str) -> None:
    cluster = one_pair()
    cluster.put(claim_object("more", storage_class="made"))
    for key in ("persistentvolumes/pv-1", "persistentvolumeclaims/more"):
        cluster.server.reject_next.append((f"/{key}", failure(status, reason)))

    def changed(request: Request) -> None:
        """Before each write that is rejected another writer annotates its object."""
        plural, _, name = request.path.removeprefix("/api/v1/").removeprefix("namespaces/default/").partition("/")
        if any(part in request.path for part, _ in cluster.server.reject_next):
            cluster.annotate(plural, name if plural == VOLUMES else f"default/{name}", note=request.path)

    cluster.server.before_write = changed
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}, ["more"]))
    assert cluster.writes() == ["pv-1", "default/more"]
    assert cluster.server.reject_next == []
    cluster.server.remove("pods", "default/web")
    assert await outcome(task) is not None


async def test_a_write_that_a_policy_rejects_is_an_error_with_its_words_and_not_a_change() -> None:
    cluster = one_pair()
    cluster.server.reject_next += [("PATCH", failure(422, "Invalid"))] * 3
    instance = cluster.instance()
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    with pytest.raises(Invalid, match="422 Invalid"):
        await outcome(task)
    assert len(cluster.server.reject_next) == 2


def steal(cluster: Cluster) -> None:
    cluster.change(VOLUMES, "pv-1", "spec", claimRef=OTHER)


def make_unhealthy(cluster: Cluster) -> None:
    cluster.annotate(VOLUMES, "pv-1", **{"scheduler.cloud.example/quarantine": "Gone"})


def give_another(cluster: Cluster) -> None:
    reference = REFERENCE | {"name": "data", "uid": cluster.uid("data")}
    cluster.put(volume_object("pv-9", claim=reference))


def delete_volume(cluster: Cluster) -> None:
    cluster.server.remove(VOLUMES, "pv-1")


def delete_claim(cluster: Cluster) -> None:
    cluster.server.remove(CLAIMS, "default/data")


BEFORE_THE_WRITE = [
    (steal, Reason.CLAIMED_BY_OTHER),
    (make_unhealthy, Reason.QUARANTINED),
    (delete_volume, Reason.VOLUME_MISSING),
    (give_another, Reason.OTHER_VOLUME_PREBOUND),
    (delete_claim, Reason.CLAIM_NOT_FOUND),
]


async def loses(event: Callable[[Cluster], None], reason: Reason, *, lagging: bool) -> None:
    cluster = one_pair()
    instance = cluster.instance()
    placement = instance.placement({"data": "pv-1"})
    cluster.server.lagging = lagging
    event(cluster)
    rejection = await outcome(await instance.begin(placement))
    assert rejection is not None
    assert rejection.reason is reason
    assert cluster.writes() == []


@pytest.mark.parametrize(("event", "reason"), BEFORE_THE_WRITE)
async def test_what_is_known_before_the_write_costs_none(event: Callable[[Cluster], None], reason: Reason) -> None:
    await loses(event, reason, lagging=False)


@pytest.mark.parametrize(("event", "reason"), BEFORE_THE_WRITE[:3])
async def test_the_version_shows_what_the_watch_has_not_shown_yet(
    event: Callable[[Cluster], None], reason: Reason
) -> None:
    await loses(event, reason, lagging=True)


async def test_three_claims_get_all_or_none() -> None:
    cluster = Cluster()
    for number in (1, 2, 3):
        cluster.pair(f"data-{number}", f"pv-{number}")
    originals = {name: copy.deepcopy(cluster.volume(name)) for name in ("pv-1", "pv-2")}
    instance = cluster.instance()
    placement = instance.placement({f"data-{number}": f"pv-{number}" for number in (1, 2, 3)})
    cluster.before("pv-3", lambda: cluster.change(VOLUMES, "pv-3", "spec", claimRef=OTHER))
    rejection = await outcome(await instance.begin(placement))
    assert rejection is not None
    assert (rejection.reason, rejection.subject) == (Reason.CLAIMED_BY_OTHER, "pv-3")
    assert cluster.writes() == ["pv-1", "pv-2", "pv-2", "pv-1"]
    for name, original in originals.items():
        now = cluster.volume(name)
        original["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        assert now == original


async def test_a_loss_that_is_known_costs_no_write() -> None:
    cluster = Cluster()
    for number in (1, 2, 3):
        cluster.pair(f"data-{number}", f"pv-{number}")
    instance = cluster.instance()
    placement = instance.placement({f"data-{number}": f"pv-{number}" for number in (1, 2, 3)})
    cluster.change(VOLUMES, "pv-3", "spec", claimRef=OTHER)
    assert await outcome(await instance.begin(placement)) is not None
    assert instance.connection.requests == 0


@pytest.mark.parametrize("took_place", [False, True])
@pytest.mark.parametrize("provision", [False, True])
async def test_a_lost_answer_is_looked_up(took_place: bool, provision: bool) -> None:
    cluster = one_to_make() if provision else one_pair()
    instance = cluster.instance()
    placement = instance.placement({}, ["data"]) if provision else instance.placement({"data": "pv-1"})
    cluster.server.reject_next.append(("PATCH", Unavailable("PATCH", "/", 0, "Timeout", "no answer")))
    if took_place:
        reference = REFERENCE | {"name": "data", "uid": cluster.uid("data")}
        selected = {"volume.kubernetes.io/selected-node": "node-a"}
        cluster.before("/data", lambda: cluster.annotate(CLAIMS, "default/data", **selected))
        if not provision:
            cluster.before("/pv-1", lambda: cluster.change(VOLUMES, "pv-1", "spec", claimRef=reference))
    task = await instance.begin(placement)
    assert not task.done()
    assert len(cluster.writes()) == (0 if took_place else 1)
    cluster.server.remove("pods", "default/web")
    assert await outcome(task) is not None
    # It is ours, so it is taken back.
    assert cluster.selected("data") is None
    assert provision or "claimRef" not in cluster.volume("pv-1")["spec"]


async def test_a_write_without_an_answer_that_takes_place_late_is_ours_all_the_same() -> None:
    """The second one meets its result, and so learns that the first one was not lost."""
    cluster = one_pair()
    instance = cluster.instance()
    placement = instance.placement({"data": "pv-1"})
    cluster.server.reject_next.append(("PATCH", Unavailable("PATCH", "/", 0, "Timeout", "no answer")))
    reference = REFERENCE | {"name": "data", "uid": cluster.uid("data")}
    sent: list[Request] = []

    def late(request: Request) -> None:
        sent.append(request)
        if len(sent) == 2:
            cluster.change(VOLUMES, "pv-1", "spec", claimRef=reference)

    cluster.server.before_write = late
    task = await instance.begin(placement)
    assert (len(sent), cluster.writes()) == (2, [])
    cluster.server.remove("pods", "default/web")
    assert await outcome(task) is not None
    assert "claimRef" not in cluster.volume("pv-1")["spec"]


async def test_a_server_that_stays_away_is_an_error_and_nothing_is_believed() -> None:
    cluster = one_pair()
    instance = cluster.instance()
    cluster.server.reject_next += [("", failure(503, "ServiceUnavailable"))] * 2
    task = await instance.begin(instance.placement({"data": "pv-1"}))
    with pytest.raises(Unavailable):
        await outcome(task)
    assert instance.listening() == 0


async def test_a_lost_lease_ends_it_without_another_write() -> None:
    cluster = Cluster()
    cluster.pair("one", "pv-1")
    cluster.pair("two", "pv-2")
    instance = cluster.instance()
    placement = instance.placement({"one": "pv-1", "two": "pv-2"})
    cluster.before("pv-1", instance.leadership.end)
    with pytest.raises(LeadershipLost):
        await instance.plugin.pre_bind(placement)
    assert cluster.writes() == ["pv-1"]


@pytest.mark.parametrize("last", [1, 2, 3])
async def test_killed_after_any_write_the_next_instance_continues(last: int) -> None:
    cluster = Cluster()
    cluster.pair("one", "pv-1")
    cluster.pair("two", "pv-2")
    cluster.put(claim_object("three", storage_class="made"))
    first = cluster.instance(dies_after=last)
    task = await first.begin(first.placement({"one": "pv-1", "two": "pv-2"}, ["three"]))
    assert task.done()
    assert type(task.exception()).__name__ == "Killed"
    cluster.server.forget(first.store)
    second = cluster.instance()
    task = await second.begin(second.placement({"one": "pv-1", "two": "pv-2"}, ["three"]))
    assert cluster.writes() == ["pv-1", "pv-2", "default/three"]
    cluster.put(volume_object("pvc-3", storage_class="made"))
    for claim, volume in (("one", "pv-1"), ("two", "pv-2"), ("three", "pvc-3")):
        assert not task.done()
        cluster.kubernetes_binds(claim, volume)
        await settle()
    assert await outcome(task) is None
