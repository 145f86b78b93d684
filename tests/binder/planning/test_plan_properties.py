"""What holds for every batch: no volume twice, all or none, upstream's rules, and no dependence on order."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from binder.matching.index import VolumeIndex
from binder.matching.matching import scheduler_rejection
from binder.model.decision import Reserve
from binder.model.view import View
from binder.planning.plan import plan
from kube.objects.labels import LabelSelector
from kube.objects.model import Record
from kube.store.store import snapshot_of
from tests.binder.views import NOW
from tests.builders import claim, node, pod, storage_class, volume

zones = st.sampled_from([None, "a", "b", "c"])
tiers = st.sampled_from([{}, {"tier": "gold"}, {"tier": "silver"}])
modes = st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOncePod",)])
sizes = st.integers(1, 6)


@st.composite
def clusters(draw: st.DrawFn) -> list[Record]:
    records: list[Record] = [storage_class()]
    for number in range(draw(st.integers(0, 4))):
        cores = draw(st.integers(1, 4))
        records.append(node(f"n{number}", zone=draw(zones), allocatable={"cpu": str(cores)}))
    for number in range(draw(st.integers(0, 10))):
        size, labels = f"{draw(sizes)}Gi", draw(tiers)
        records.append(volume(f"v{number}", size=size, zone=draw(zones), labels=labels, access_modes=draw(modes)))
    for number in range(draw(st.integers(1, 5))):
        names = [f"c{number}-{part}" for part in range(draw(st.integers(1, 3)))]
        for name in names:
            tier = draw(tiers)
            selector = LabelSelector(match_labels=tuple(tier.items())) if tier else None
            records.append(claim(name, size=f"{draw(sizes)}Gi", selector=selector, access_modes=draw(modes)))
        records.append(pod(f"p{number}", claims=names, requests={"cpu": "1"}, priority=draw(st.integers(0, 1))))
    return records


def view_of(records: list[Record]) -> View:
    snapshot = snapshot_of(records)
    return View(snapshot, VolumeIndex.of(snapshot.volumes.values()))


@given(records=clusters())
@settings(max_examples=200, deadline=None)
def test_a_plan_keeps_every_rule(records: list[Record]) -> None:
    seen = view_of(records)
    decisions = plan(seen, seen.snapshot.pods.values(), NOW)
    reserved = [decision for decision in decisions if isinstance(decision, Reserve)]
    assert {decision.pod.key for decision in decisions} == set(seen.snapshot.pods)
    taken = [placement.volume.name for decision in reserved for placement in decision.placements]
    assert len(taken) == len(set(taken))
    for decision in reserved:
        assert {placement.claim.key for placement in decision.placements} == set(decision.pod.claim_keys)
        labels = dict(seen.snapshot.nodes[decision.node].labels)
        for placement in decision.placements:
            assert scheduler_rejection(placement.claim, placement.volume, labels) is None
    for name, known in seen.snapshot.nodes.items():
        cores = dict(known.allocatable)["cpu"] // 10**9
        assert sum(decision.node == name for decision in reserved) <= cores


@given(records=clusters(), random=st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_objects_does_not_matter(records: list[Record], random: Random) -> None:
    seen = view_of(records)
    shuffled = records[:]
    random.shuffle(shuffled)
    again = view_of(shuffled)
    by_key = {decision.pod.key: decision for decision in plan(again, again.snapshot.pods.values(), NOW)}
    for decision in plan(seen, seen.snapshot.pods.values(), NOW):
        assert by_key[decision.pod.key] == decision
