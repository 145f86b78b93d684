from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube.objects import model
from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, Record
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.queueing_hint import ANYTHING_HELPS
from scheduler.plugins.registry import default_data
from scheduler.queue.hints import Hints, may_help
from scheduler.queue.unschedulable_pods import UnschedulablePods
from tests import builders
from tests.scheduler.wakeups import hints_of
from tests.scheduler.worlds import VARIANTS, WAITING

STORAGE = hints_of("VolumeBinding")
WEBS, ALONE = LabelSelector((("app", "web"),)), LabelSelector((("alone", "yes"),))
GPU = model.Taint("gpu", "NoSchedule")


def rejected(*pods: tuple[Pod, Hints, Wanted | None]) -> UnschedulablePods:
    filed = UnschedulablePods()
    for pod, hints, wanted in pods:
        filed.add(pod, hints, wanted)
    return filed


def helped(filed: UnschedulablePods, old: Record | None, new: Record | None) -> list[str]:
    return [key.removeprefix("default/") for key in filed.helped_by(ClusterEvent(old, new))]


def test_alike_pods_are_helped_together_and_others_are_not() -> None:
    small, large = {"cpu": "2"}, {"cpu": "9"}
    resources = hints_of("NodeResourcesFit")
    filed = rejected(
        (builders.pod("a", requests=small), resources, None),
        (builders.pod("b", requests=large), resources, None),
        (builders.pod("c", requests=small), resources | hints_of("NodeAffinity"), None),
    )
    assert helped(filed, None, builders.node("new", taints=[GPU])) == ["a", "c"]
    filed.discard("default/a")
    filed.discard("default/a")
    assert helped(filed, None, builders.node("new", taints=[GPU])) == ["c"]
    assert (len(filed), list(filed)) == (2, ["default/b", "default/c"])


def test_a_change_of_one_claim_or_volume_concerns_its_pods_only() -> None:
    ours, theirs = Wanted(frozenset({"fast"}), frozenset({"pv-1"})), Wanted(frozenset({"fast"}), frozenset({"pv-2"}))
    filed = rejected(
        (builders.pod("a", claims=["data"]), STORAGE, ours),
        (builders.pod("b", claims=["more"]), STORAGE, theirs),
        (builders.pod("c", claims=["data"]), hints_of("NodeAffinity"), ours),
    )
    assert helped(filed, builders.claim("data"), builders.claim("data", size="1Gi")) == ["a"]
    assert helped(filed, builders.volume("pv-2", phase="Bound"), None) == ["b"]
    assert helped(filed, builders.volume(claim="default/data"), builders.volume(claim="default/more")) == ["a", "b"]
    assert helped(filed, None, builders.volume("pv-3")) == ["a", "b"]


def test_a_pod_rejected_by_an_unknown_plugin_is_woken_by_anything() -> None:
    filed = rejected((builders.pod("a"), frozenset(), None), (builders.pod("b"), frozenset({ANYTHING_HELPS}), None))
    assert helped(filed, None, builders.storage_class()) == ["a", "b"]


def test_labels_are_compared_one_by_one_where_they_matter() -> None:
    affinity = hints_of("InterPodAffinity")
    filed = rejected(
        (builders.pod("a", labels={"alone": "yes"}), affinity, None),
        (builders.pod("b", labels={"alone": "no"}), affinity, None),
    )
    jealous = builders.pod("there", node="n1", constraints=Constraints(anti_affinity=(PodTerm("zone", ALONE),)))
    assert helped(filed, jealous, None) == ["a"]
    assert helped(filed, builders.pod("there", node="n1"), None) == []


hints = st.frozensets(st.sampled_from(sorted(default_data("ours").filters)), max_size=2).map(lambda by: hints_of(*by))
waits = st.one_of(
    st.none(),
    st.builds(
        Wanted,
        st.frozensets(st.sampled_from(("fast", "slow")), max_size=2),
        st.frozensets(st.sampled_from(("pv-1", "pv-2")), max_size=2),
        st.frozensets(st.sampled_from(("disk.csi.example", "other.csi.example")), max_size=2),
        st.booleans(),
    ),
)
stories = st.tuples(
    st.sampled_from(WAITING),
    hints,
    waits,
)
slots = st.sampled_from(list(VARIANTS.values()))
changes = slots.flatmap(lambda variants: st.tuples(*[st.sampled_from([*variants, None])] * 2))


@settings(deadline=None, max_examples=200)
@given(st.lists(stories, min_size=1, max_size=6), changes, st.frozensets(st.just("disk.csi.example")))
def test_evaluating_many_at_once_equals_evaluating_each(
    cases: list[tuple[Pod, Hints, Wanted | None]],
    happening: tuple[Record | None, Record | None],
    drivers: frozenset[str],
) -> None:
    assume(happening != (None, None))
    change = ClusterEvent(*happening, drivers)
    pods = [(replace(pod, name=f"p-{number}"), by, wanted) for number, (pod, by, wanted) in enumerate(cases)]
    filed = rejected(*pods)
    assert set(filed.helped_by(change)) == {pod.key for pod, by, wanted in pods if may_help(pod, by, change, wanted)}
