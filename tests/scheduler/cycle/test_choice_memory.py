"""What is remembered of claims and volumes never changes a decision, whatever happens to them in between."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace as with_fields

from binder.matching.index import VolumeIndex
from binder.model.view import PlanSettings, View
from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects import model
from kube.objects.reports import StorageCondition, StorageReports
from kube.store.store import Store
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.cycle.choice_memory import ChoiceMemory
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.standalone.cache import SchedulerCache
from scheduler.state.cluster import view_of
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import pod_info
from tests import builders
from tests.binder.provisioning.clusters import Cluster, local_class, report, selected
from tests.scheduler.plugin_results import best_placements, view

PROFILE = default_profile("test")
NODES = tuple(f"n{number}" for number in range(4))
VOLUMES = tuple(f"v{number}" for number in range(8))
SIZES = ("5Gi", "10Gi")
DRIVER = "disk.csi.example"


class Storage(RuleBasedStateMachine):
    """Pods with claims come while volumes come, go, become unhealthy and are kept for others."""

    def __init__(self) -> None:
        super().__init__()
        self.store, self.version, self.now = Store(), 0, builders.EPOCH
        self.cache, self.decider = SchedulerCache(self.store, PlanSettings()), Decider()

    def next_version(self) -> int:
        self.version += 1
        return self.version

    @initialize(provisioner=st.sampled_from((model.NO_PROVISIONER, DRIVER)))
    def begin(self, provisioner: str) -> None:
        self.store.classes.upsert(builders.storage_class(provisioner=provisioner))
        for number, name in enumerate(NODES):
            self.store.nodes.upsert(builders.node(name, zone="ab"[number % 2]))
            self.store.csi_nodes.upsert(builders.csi_node(name, limits={DRIVER: 2}))
        for name in VOLUMES[:4]:
            self.volume(name, name.replace("v", "n"), "10Gi")

    def volume(self, name: str, place: str, size: str, annotations: dict[str, str] | None = None) -> None:
        local = place in NODES
        made = builders.volume(
            name,
            size=size,
            node=place if local else None,
            zone=None if local else place,
            annotations=annotations,
            resource_version=self.next_version(),
        )
        self.store.volumes.upsert(made)

    @rule(
        name=st.sampled_from(VOLUMES),
        place=st.sampled_from((*NODES, "a", "b")),
        size=st.sampled_from(("5Gi", "10Gi", "20Gi")),
        kept=st.sampled_from(("", "", "", "a minute", "an hour", "unhealthy")),
    )
    def volume_shown(self, name: str, place: str, size: str, kept: str) -> None:
        annotations = {Annotations().quarantine: "unhealthy"} if kept == "unhealthy" else {}
        if kept in {"a minute", "an hour"}:
            until = self.now + timedelta(minutes=1 if kept == "a minute" else 60)
            annotations = Annotations().for_volume(
                VolumeReservation("default/else", "uid-else", self.now, until, Holder("us", 1))
            )
        self.volume(name, place, size, annotations)

    @rule(name=st.sampled_from(VOLUMES))
    def volume_gone(self, name: str) -> None:
        self.store.volumes.delete(name)

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from(("a", "b")), gone=st.booleans())
    def node_shown(self, name: str, zone: str, gone: bool) -> None:
        if gone and len(self.store.nodes.items) > 1:
            self.store.nodes.delete(name)
        else:
            self.store.nodes.upsert(builders.node(name, zone=zone, resource_version=self.next_version()))

    @rule(names=st.sets(st.sampled_from(NODES)), status=st.sampled_from(("", "StorageDegraded", "StorageUnreachable")))
    def storage_reported(self, names: set[str], status: str) -> None:
        for name in sorted(names):
            self.report(name, status)

    def report(self, name: str, status: str) -> None:
        report = StorageReports((StorageCondition(DRIVER, status),) if status else ())
        made = builders.csi_node(name, limits={DRIVER: 2}, resource_version=self.next_version())
        self.store.csi_nodes.upsert(with_fields(made, storage=report))

    @rule(minutes=st.sampled_from((1, 30)))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=2),
        outcome=st.sampled_from(("bound", "in flight", "in flight", "forgotten")),
        special=st.sampled_from(("", "", "", "selected", "reserved", "bound")),
    )
    def pod_comes(self, sizes: list[str], outcome: str, special: str) -> None:
        number = self.next_version()
        claims = [builders.claim(f"c{place}-{number}", size=size) for place, size in enumerate(sizes)]
        claims[0] = self.specially(claims[0], special)
        for claim in claims:
            self.store.claims.upsert(claim)
        pod = builders.pod(f"p{number}", claims=[claim.name for claim in claims], requests={"cpu": "1"})
        cluster = self.cache.view(self.now)
        decision, best = self.decider.decide(pod, cluster, PROFILE), best_placements(pod, cluster, PROFILE)
        if not isinstance(decision, ScheduleResult):
            assert not best
            return
        assert decision == best[decision.node]
        assert self.cache.assume(decision, [ReserveVolumes()]) is None
        if outcome == "forgotten":
            self.cache.forget(pod.key)
        elif outcome == "bound":
            self.bind(decision)

    def specially(self, claim: model.Claim, special: str) -> model.Claim:
        if special == "bound":
            bound = builders.pairs({model.BIND_COMPLETED: "yes"})
            return with_fields(claim, volume_name="v1", phase="Bound", annotations=bound)
        if special == "reserved":
            promised = ClaimReservation("v1", self.now, self.now + timedelta(hours=1), zone="a")
            annotations = {key: value for key, value in Annotations().for_claim(promised).items() if value is not None}
            return with_fields(claim, annotations=builders.pairs(annotations))
        if special == "selected":
            return with_fields(claim, annotations=builders.pairs({model.SELECTED_NODE: "n1"}))
        return claim

    def claims_of(self, volume: str) -> tuple[str, ...]:
        return self.store.snapshot().claims_by_volume[volume]

    def bind(self, placement: ScheduleResult) -> None:
        for claim, volume in placement.volumes.volumes:
            reference = model.ClaimReference(claim.namespace, claim.name, claim.uid)
            version = self.next_version()
            self.store.volumes.upsert(with_fields(volume, claim=reference, phase="Bound", resource_version=version))
            bound = builders.pairs({model.BIND_COMPLETED: "yes"})
            self.store.claims.upsert(
                with_fields(claim, volume_name=volume.name, annotations=bound, resource_version=version)
            )
        shown = with_fields(placement.pod, node_name=placement.node, resource_version=self.next_version())
        self.store.pods.upsert(shown)


TestStorage = Storage.TestCase
TestStorage.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)


def test_a_free_volume_that_a_claim_turns_out_to_be_bound_to_is_evaluated_again() -> None:
    """A claim that is bound keeps the volume although its claimRef is gone; only the claim has changed."""
    storage = Storage()
    storage.begin(model.NO_PROVISIONER)
    storage.pod_comes(["5Gi"], "bound", "")
    storage.pod_comes(["5Gi", "5Gi"], "bound", "bound")
    storage.pod_comes(["5Gi"], "bound", "")
    storage.store.claims.delete(storage.claims_of("v1")[0])
    for _ in range(3):
        storage.pod_comes(["5Gi"], "bound", "")
    assert {pod.node_name for pod in storage.store.pods.items.values()} == set(NODES)


def test_a_volume_that_is_kept_for_another_is_evaluated_again() -> None:
    """Nothing happens at the moment a reservation expires."""
    until = builders.EPOCH + timedelta(minutes=1)
    kept = Annotations().for_volume(VolumeReservation("default/else", "uid", builders.EPOCH, until, Holder("us", 1)))
    volumes = [
        builders.volume("kept", node="n0", source="local", annotations=kept),
        *(builders.volume(f"free-{number}", node="n1", source="local") for number in range(2)),
    ]
    nodes, claims = [builders.node("n0"), builders.node("n1")], [builders.claim("one"), builders.claim("two")]
    cluster, decider = view(*nodes, *volumes, *claims, builders.storage_class()), Decider()
    chosen = []
    for minute, name in enumerate(("one", "two")):
        pod = builders.pod(name, claims=[name], requests={"cpu": "1"})
        decision = decider.decide(pod, cluster.at(builders.EPOCH + timedelta(minutes=minute)), PROFILE)
        assert isinstance(decision, ScheduleResult)
        chosen.append(decision.node)
        cluster = cluster.with_pod(pod, decision.node)
    assert chosen == ["n1", "n0"]


def test_a_volume_that_was_given_up_is_found_again() -> None:
    volume, claims = builders.volume("only", node="n0"), [builders.claim("one"), builders.claim("two")]
    store, decider = Store(), Decider()
    store.classes.replace([builders.storage_class()], "1")
    store.nodes.replace([builders.node("n0")], "1")
    store.volumes.replace([volume], "1")
    store.claims.replace(claims, "1")
    cache = SchedulerCache(store, PlanSettings())
    first, second = (builders.pod(each.name, claims=[each.name], requests={"cpu": "1"}) for each in claims)
    decision = decider.decide(first, cache.view(builders.EPOCH), PROFILE)
    assert isinstance(decision, ScheduleResult)
    assert cache.assume(decision, [ReserveVolumes()]) is None
    assert isinstance(decider.decide(second, cache.view(builders.EPOCH), PROFILE), Unschedulable)
    cache.forget(first.key)
    assert isinstance(decider.decide(second, cache.view(builders.EPOCH), PROFILE), ScheduleResult)


def test_what_is_booked_of_a_pool_is_seen_by_the_next_pod() -> None:
    pool = Cluster(local_class(), report("100Gi"), report("10Gi", "n2"), builders.claim("data", size="60Gi"))
    cluster = view_of(View(pool.store.snapshot(), VolumeIndex(), pools=pool.ledger()), builders.EPOCH)
    pod, decider = builders.pod("web", claims=["data"], requests={"cpu": "1"}), Decider()
    assert isinstance(decider.decide(pod, cluster, PROFILE), ScheduleResult)
    pool.put(selected("other", "60Gi"))
    booked = replace(cluster, storage=replace(cluster.storage, pools=pool.ledger()))
    assert isinstance(decider.decide(pod, booked, PROFILE), Unschedulable)


def test_a_node_that_is_cut_off_implies_nothing_about_others() -> None:
    """All are alike by their labels, and more than are judged one by one."""
    nodes = [builders.node(f"n{number:02}", zone="a") for number in range(40)]
    cut = builders.csi_node("n00", reports=[StorageCondition(DRIVER, "StorageUnreachable")])
    claims = [builders.claim(f"c{number}") for number in range(2)]
    volumes = [builders.volume(f"v{number}", zone="a") for number in range(2)]
    cluster, decider = view(*nodes, cut, *claims, *volumes, builders.storage_class()), Decider()
    for claim in claims:
        decision = decider.decide(builders.pod(claims=[claim.name], requests={"cpu": "1"}), cluster, PROFILE)
        assert isinstance(decision, ScheduleResult)
        assert decision.node != "n00"


def test_many_nodes_in_few_zones() -> None:
    nodes = [builders.node(f"n{number:02}", zone="abc"[number % 3]) for number in range(40)]
    volumes = [builders.volume(f"v{number}", zone="abc"[number % 2], size=f"{10 + number}Gi") for number in range(6)]
    claims = [builders.claim(f"c{number}") for number in range(8)]
    store, decider = Store(), Decider()
    cache = SchedulerCache(store, PlanSettings())
    store.nodes.replace(nodes, "1")
    store.volumes.replace(volumes, "1")
    store.classes.replace([builders.storage_class()], "1")
    store.claims.replace(claims, "1")
    for claim in claims:
        pod = builders.pod(claim.name, claims=[claim.name], requests={"cpu": "1"})
        cluster = cache.view(builders.EPOCH)
        decision, best = decider.decide(pod, cluster, PROFILE), best_placements(pod, cluster, PROFILE)
        assert isinstance(decision, ScheduleResult) == bool(best) == (claim in claims[:6])
        if isinstance(decision, ScheduleResult):
            assert decision == best[decision.node]
            assert cache.assume(decision, [ReserveVolumes()]) is None


def test_what_is_booked_of_another_class_makes_no_node_be_evaluated_again() -> None:
    pool = Cluster(
        local_class(), local_class("slow", tier="b"), report(), report(of="slow"), builders.claim("data", size="60Gi")
    )
    memory, evaluated = ChoiceMemory(), list[str]()

    def work_out(state: NodeInfo) -> int:
        evaluated.append(state.name)
        return 1

    def look() -> list[str]:
        cluster = view_of(View(pool.store.snapshot(), VolumeIndex(), pools=pool.ledger()), builders.EPOCH)
        evaluated.clear()
        info = pod_info(builders.pod("web", claims=["data"]), cluster.storage, cluster.now)
        memory.answers("key", info, cluster, work_out)
        return evaluated

    assert sorted(look()) == ["n1", "n2"]
    pool.put(selected("other", "60Gi", of="slow"))
    assert look() == []
    pool.put(selected("alike", "60Gi"))
    assert look() == ["n1"]
