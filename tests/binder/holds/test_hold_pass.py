"""Which replicas get volumes held, in which zones, and which get none and why."""

import pytest

from binder.holds.hold_pass import HoldPlan
from binder.holds.limits import HoldLimits
from kube.objects.model import Claim, Node, Pod, Volume
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.rules.quantity import parse_quantity
from tests.binder.holds.sets import ALL, PREBIND, ZONES, chosen, held, nodes, passed, running, stateful_set
from tests.binder.views import view
from tests.builders import claim, node, pod, storage_class, volume

Records = list[Claim | Pod | Volume | Node]


def three_run(owner: StatefulSet) -> Records:
    return [record for number, zone in enumerate(ZONES) for record in running(owner, number, zone)]


def free(each: int = 2, zones: tuple[str, ...] = ZONES, size: str = "10Gi") -> Records:
    return [volume(f"free-{zone}-{size}-{number}", zone=zone, size=size) for zone in zones for number in range(each)]


def why(plan: HoldPlan) -> tuple[int | None, str]:
    (unheld,) = plan.unheld
    return unheld.ordinal, unheld.why


def zones_of(plan: HoldPlan) -> str:
    return "".join(each.zone for each in plan.holds)


def test_replicas_to_come_continue_the_spread_of_running_replicas() -> None:
    owner = stateful_set()
    plan = passed([*three_run(owner), *free()], owner)
    assert not plan.unheld
    assert zones_of(plan) == "abc"
    assert chosen(plan).keys() == {"data-db-3", "data-db-4", "data-db-5"}


def test_each_prefix_is_balanced_where_running_replicas_are_not() -> None:
    owner = stateful_set()
    cluster = [record for number, zone in enumerate("bba") for record in running(owner, number, zone)]
    assert zones_of(passed([*cluster, *free()], owner)) == "cac"


def test_a_zone_without_volumes_is_passed_over() -> None:
    owner = stateful_set()
    assert zones_of(passed([*three_run(owner), *free(each=3, zones=("a", "c"))], owner)) == "aca"


def test_all_volumes_of_a_replica_are_in_one_zone_or_none_is_held() -> None:
    owner = stateful_set(hold="4", templates=[claim("data"), claim("log", size="5Gi")])
    apart = [volume("data-a", zone="a"), volume("log-b", zone="b", size="5Gi")]
    plan = passed([*three_run(owner), *apart], owner)
    assert not plan.holds
    assert why(plan)[0] == 3
    together = passed([*three_run(owner), *apart, volume("log-a", zone="a", size="5Gi")], owner)
    assert chosen(together) == {"data-db-3": "data-a", "log-db-3": "log-a"}


def test_exactly_enough_volumes_are_enough() -> None:
    owner = stateful_set(hold="12", templates=[claim("data"), claim("log", size="5Gi")])
    plan = passed([*three_run(owner), *free(each=3), *free(each=3, size="5Gi")], owner)
    assert not plan.unheld
    assert zones_of(plan) == "abcabcabc"


def test_what_is_held_stays_and_the_rest_is_added() -> None:
    owner = stateful_set()
    plan = passed([*three_run(owner), *free(), held("kept", "data-db-3", "a")], owner)
    assert [ordinal for _, ordinal in plan.standing] == [3]
    assert chosen(plan).keys() == {"data-db-4", "data-db-5"}
    assert not plan.endings
    assert zones_of(plan) == "bc"


def test_half_a_replica_is_completed_where_it_is() -> None:
    owner = stateful_set(hold="4", templates=[claim("data"), claim("log", size="5Gi")])
    half = [*three_run(owner), held("half", "data-db-3", "b")]
    plan = passed([*half, volume("log-a", zone="a", size="5Gi"), volume("log-b", zone="b", size="5Gi")], owner)
    assert chosen(plan) == {"log-db-3": "log-b"}
    without = passed([*half, volume("log-a", zone="a", size="5Gi")], owner)
    assert [(each.volume.name, str(each.cause)) for each in without.endings] == [("half", "half_held")]
    assert not without.holds


def test_the_replicas_after_one_that_gets_none_get_none() -> None:
    owner = stateful_set()
    plan = passed([*three_run(owner), *free(each=1, zones=("a",))], owner)
    assert chosen(plan).keys() == {"data-db-3"}
    assert why(plan)[0] == 4


def test_ordinals_count_from_the_sets_start() -> None:
    owner = stateful_set(hold="2", start=10)
    assert chosen(passed(free(), owner)).keys() == {"data-db-10", "data-db-11"}


@pytest.mark.parametrize("hold", ["-1", "many", "1001", "3.5", ""])
def test_a_number_that_is_none_is_named(hold: str) -> None:
    plan = passed(free(), stateful_set(hold=hold))
    assert not plan.holds
    assert "hold-replicas" in why(plan)[1]


@pytest.mark.parametrize("hold", [None, "0"])
def test_a_set_that_wants_nothing_gets_nothing(hold: str | None) -> None:
    plan = passed(free(), stateful_set(hold=hold))
    assert (plan.holds, plan.unheld) == ((), ())


def test_a_class_in_mode_annotate_gets_no_holds() -> None:
    plan = passed(free(), stateful_set(), seen=view(storage_class(), *nodes(), *free()))
    assert why(plan) == (None, "class fast is in mode annotate; volumes are held in modes prebind and complete")


def test_two_sets_that_form_the_same_claim_names_get_none() -> None:
    numbered = stateful_set("db-1", uid="one", templates=[claim("data")])
    other = stateful_set("1", uid="other", templates=[claim("data-db")], hold=None)
    assert "template data" in why(passed(free(), numbered, other))[1]


def test_no_volume_that_is_unhealthy_reserved_or_kept_is_held() -> None:
    owner = stateful_set(hold="1")
    marks = {"scheduler.cloud.example/health": "DataLoss", "scheduler.cloud.example/health-reason": "Gone"}
    marks["scheduler.cloud.example/health-since"] = "2026-01-01T00:00:00Z"
    kept = {"scheduler.cloud.example/was-for": "default/x/uid", "scheduler.cloud.example/namespace-uid": "u"}
    bad = [volume("lost", zone="a", annotations=marks), volume("kept", zone="b", annotations=kept)]
    plan = passed(bad, owner)
    assert not plan.holds
    assert why(plan)[0] == 0


def test_nodes_that_the_template_does_not_fit_are_left_out() -> None:
    owner = stateful_set(hold="2", template=pod("db", node_selector={"disk": "fast"}))
    fitting = node("other", zone="b", labels={"disk": "fast"}, allocatable={"pods": "1000"})
    seen = view(PREBIND, *nodes(), fitting, *free())
    assert zones_of(passed((), owner, seen=seen)) == "bb"


def test_local_volumes_of_nodes_that_karpenter_may_remove_are_not_held() -> None:
    owner = stateful_set(hold="1")
    labels = {"karpenter.sh/nodepool": "default"}
    seen = view(PREBIND, node("here", zone="a", labels=labels), volume("local", node="here"))
    assert not passed((), owner, seen=seen).holds
    stays = view(PREBIND, node("here", zone="a"), volume("local", node="here"))
    assert chosen(passed((), owner, seen=stays)) == {"data-db-0": "local"}


def test_for_an_immediate_class_only_volumes_with_the_same_access_modes_are_held() -> None:
    immediate = storage_class("fast", binding_mode="Immediate", annotations=dict(PREBIND.annotations))
    wide = volume("wide", zone="a", access_modes=("ReadWriteOnce", "ReadOnlyMany"))
    owner = stateful_set(hold="1")
    assert not passed((), owner, seen=view(immediate, *nodes(), wide)).holds
    exact = volume("exact", zone="b")
    assert chosen(passed((), owner, seen=view(immediate, *nodes(), wide, exact))) == {"data-db-0": "exact"}


@pytest.mark.parametrize(
    ("limits", "words", "count"),
    [
        pytest.param(HoldLimits(0.5, 50), "at most 3 of 6 volumes of class fast are held", 3, id="share of a class"),
        pytest.param(HoldLimits(1.0, 2), "at most 2 volumes are held for namespace default", 2, id="namespace"),
        pytest.param(ALL, "", 6, id="no limit"),
    ],
)
def test_no_more_is_held_than_the_limits_allow(limits: HoldLimits, words: str, count: int) -> None:
    owner = stateful_set(hold="6")
    plan = passed(free(), owner, limits=limits)
    assert len(plan.holds) == count
    assert words in (why(plan)[1] if words else "")
    done = [held(each.placements[0].volume.name, each.placements[0].claim.name, each.zone) for each in plan.holds]
    names = {volume.name for volume in done}
    again = passed([*done, *(record for record in free() if record.name not in names)], owner, limits=limits)
    assert not again.holds
    assert not again.endings


@pytest.mark.parametrize(
    ("resource", "hard", "used", "count"),
    [
        ("persistentvolumeclaims", "5", "3", 2),
        ("requests.storage", "45Gi", "30Gi", 1),
        ("fast.storageclass.storage.k8s.io/requests.storage", "50Gi", "30Gi", 2),
        ("slow.storageclass.storage.k8s.io/persistentvolumeclaims", "0", "0", 3),
    ],
)
def test_no_more_is_held_than_quotas_will_allow(resource: str, hard: str, used: str, count: int) -> None:
    owner = stateful_set()
    amounts = [((resource, parse_quantity(text)),) for text in (hard, used)]
    quota = ResourceQuota("default", "limit", "uid-quota", 1, *amounts)
    plan = passed([*three_run(owner), *free()], owner, quotas=[quota])
    assert len(plan.holds) == count
    assert count == 3 or "ResourceQuota limit" in why(plan)[1]


def test_a_replica_whose_pod_exists_is_left_to_it() -> None:
    owner = stateful_set(hold="1")
    assert not passed([*free(), pod("db-0", claims=["data-db-0"])], owner).holds
