"""Volumes are reserved for pods only where they may run beside others: running, reserved earlier, of the same pass."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Decision, Reject, Reserve
from binder.model.view import View
from binder.planning.plan import holds_of, plan
from kube.objects.constraints import GCE, Constraints, HostPort, InlineDisk, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Record
from tests.binder.views import NOW, chosen, planned, view
from tests.builders import HOSTNAME, ZONE, claim, node, pod, volume

DB = LabelSelector((("app", "db"),))
APART = Constraints(anti_affinity=(PodTerm(HOSTNAME, DB),))
APART_BY_ZONE = Constraints(anti_affinity=(PodTerm(ZONE, DB),))
TOGETHER = Constraints(affinity=(PodTerm(ZONE, DB),))
SPREAD = Constraints(spread=(SpreadConstraint(1, ZONE, selector=DB),))
SPREAD_BY_NODE = Constraints(spread=(SpreadConstraint(1, HOSTNAME, selector=DB),))
PORT = Constraints(ports=(HostPort(5432),))


def db(number: int, constraints: Constraints | None = APART, **more: object) -> list[Record]:
    """Return a pod of a StatefulSet and its claim."""
    labels = {"app": "db", "statefulset.kubernetes.io/pod-name": f"db-{number}"}
    settings = {"labels": labels, "claims": [f"data-{number}"], "constraints": constraints, **more}
    return [claim(f"data-{number}"), pod(f"db-{number}", **settings)]  # type: ignore[arg-type]


def dbs(count: int, constraints: Constraints | None = APART) -> list[Record]:
    return [record for number in range(count) for record in db(number, constraints)]


def zonal(**counts: int) -> list[Record]:
    return [volume(f"{zone}-{number}", zone=zone) for zone, count in counts.items() for number in range(count)]


def hosts(**counts: int) -> list[Record]:
    return [node(f"{zone}{number}", zone=zone) for zone, count in counts.items() for number in range(1, count + 1)]


def places(seen: View) -> dict[str, str]:
    """Return the node of each pod that is served."""
    return {name: decision.node for name, decision in planned(seen).items() if isinstance(decision, Reserve)}


def reasons(decision: Decision) -> set[Reason]:
    assert isinstance(decision, Reject), decision
    return {rejection.reason for rejection in decision.rejections}


LOCAL = [
    *hosts(n=2),
    *[volume(f"small-{number}", size="10Gi", node="n1") for number in range(2)],
    *[volume(f"large-{number}", size="20Gi", node="n2") for number in range(2)],
]


def test_a_stateful_set_whose_pods_keep_apart_takes_no_two_volumes_of_one_node() -> None:
    assert places(view(*LOCAL, *dbs(2, None))) == {"db-0": "n1", "db-1": "n1"}
    assert places(view(*LOCAL, *dbs(2))) == {"db-0": "n1", "db-1": "n2"}


def test_no_volume_beside_a_running_pod_that_is_to_be_apart() -> None:
    running = pod("db-9", node="n1", labels={"app": "db"})
    assert places(view(*LOCAL, running, *db(0))) == {"db-0": "n2"}


def test_no_volume_beside_a_running_pod_that_forbids_newcomers() -> None:
    running = pod("guard", node="n1", constraints=APART)
    assert places(view(*LOCAL, running, *db(0, None))) == {"db-0": "n2"}


def test_a_rejection_names_the_rule_and_the_node() -> None:
    seen = view(node("n1"), volume("v", node="n1"), pod("guard", node="n1", constraints=APART), *db(0, None))
    assert Reason.EXISTING_POD_ANTI_AFFINITY in reasons(planned(seen)["db-0"])
    seen = view(node("n1"), volume("v", node="n1"), pod("old", node="n1", labels={"app": "db"}), *db(0))
    assert Reason.POD_ANTI_AFFINITY in reasons(planned(seen)["db-0"])


def test_another_namespace_is_not_meant_and_a_namespace_selector_means_all_whose_labels_are_unknown() -> None:
    elsewhere = pod("guard", namespace="other", node="n1", constraints=APART)
    assert places(view(*LOCAL, elsewhere, *db(0, None))) == {"db-0": "n1"}
    term = PodTerm(HOSTNAME, DB, namespace_selector=LabelSelector((("team", "a"),)))
    elsewhere = pod("guard", namespace="other", node="n1", constraints=Constraints(anti_affinity=(term,)))
    assert places(view(*LOCAL, elsewhere, *db(0, None))) == {"db-0": "n2"}


def test_pods_that_keep_apart_by_zone_get_volumes_of_different_zones() -> None:
    seen = view(*hosts(a=3, b=3), *zonal(a=3, b=1), *dbs(3, APART_BY_ZONE))
    assert {name[0] for name in places(seen).values()} == {"a", "b"}
    assert len(places(seen)) == 2


@pytest.mark.parametrize(
    ("term", "where"),
    [
        pytest.param(PodTerm(HOSTNAME, DB), "n1", id="its own"),
        pytest.param(PodTerm(HOSTNAME, DB, ("other",)), "n2", id="another by name"),
        pytest.param(PodTerm(HOSTNAME, DB, namespace_selector=LabelSelector()), "n2", id="all of them"),
    ],
)
def test_running_pods_are_seen_in_the_namespaces_that_a_term_means(term: PodTerm, where: str) -> None:
    running = pod("db-9", namespace="other", node="n1", labels={"app": "db"})
    assert places(view(*LOCAL, running, *db(0, Constraints(anti_affinity=(term,))))) == {"db-0": where}


def test_as_many_zonal_volumes_as_there_are_nodes_for_pods_that_keep_apart() -> None:
    """Each keeps a node whatever kube-scheduler chooses for the others; a fourth would have none."""
    assert len(places(view(*hosts(a=3), *zonal(a=5), *dbs(5)))) == 3
    assert len(set(places(view(*hosts(a=3), *zonal(a=5), *dbs(3))).values())) == 3


def test_a_pass_of_many_pods_that_keep_apart_serves_all_for_which_there_are_nodes() -> None:
    assert len(places(view(*hosts(a=60, b=60), *zonal(a=60, b=60), *dbs(100)))) == 100


def test_a_zonal_volume_is_not_reserved_where_its_pod_could_take_the_only_node_of_another() -> None:
    """kube-scheduler may put the pod with the zonal volume on a1 first, and db-0 can run nowhere else."""
    only_here = volume("local", node="a1", size="10Gi")
    seen = view(*hosts(a=2), only_here, volume("wide", zone="a", size="20Gi"), *dbs(2))
    decisions = planned(seen)
    assert chosen(decisions["db-0"]) == {"data-0": "local"}
    assert isinstance(decisions["db-1"], Reject)


def test_pods_reserved_earlier_count() -> None:
    """The second pass sees the first one's reservations in the ledger alone."""
    seen = view(*LOCAL, *dbs(2))
    first, second = (seen.snapshot.pods[f"default/db-{number}"] for number in range(2))
    (decision,) = plan(seen, [first], NOW)
    assert isinstance(decision, Reserve)
    later = replace(seen, ledger=seen.ledger.with_holds(holds_of(decision)))
    (decision,) = plan(later, [second], NOW)
    assert isinstance(decision, Reserve)
    assert decision.node == "n2"


def test_pods_whose_volumes_an_earlier_process_committed_count() -> None:
    committed: list[Record] = [
        claim("data-0", volume_name="small-0", phase="Bound", annotations={"pv.kubernetes.io/bind-completed": "yes"}),
        volume("small-0", size="10Gi", node="n1", claim="default/data-0", phase="Bound"),
        db(0)[1],
    ]
    others = [record for record in LOCAL if getattr(record, "name", "") != "small-0"]
    seen = view(*others, *committed, *db(1))
    (decision,) = plan(seen, [seen.snapshot.pods["default/db-1"]], NOW)
    assert isinstance(decision, Reserve)
    assert decision.node == "n2"


def test_a_reserved_pod_in_the_way_is_named() -> None:
    seen = view(node("n1"), volume("v0", node="n1"), volume("v1", node="n1"), *dbs(2))
    first, second = (seen.snapshot.pods[f"default/db-{number}"] for number in range(2))
    (decision,) = plan(seen, [first], NOW)
    assert isinstance(decision, Reserve)
    later = replace(seen, ledger=seen.ledger.with_holds(holds_of(decision)))
    (rejected,) = plan(later, [second], NOW)
    assert Reason.OTHER_POD_PENDING in reasons(rejected)


@pytest.mark.parametrize(
    ("running", "expected"),
    [({}, {"a", "b"}), ({"a1": 1}, {"b", "a"}), ({"a1": 1, "b1": 1}, {"a", "b"}), ({"b1": 2}, {"a"})],
)
def test_spread_over_zones(running: Mapping[str, int], expected: set[str]) -> None:
    there = [
        pod(f"{name}-{number}", node=name, labels={"app": "db"}) for name, n in running.items() for number in range(n)
    ]
    chosen = places(view(*hosts(a=3, b=3), *zonal(a=4, b=4), *there, *dbs(2, SPREAD)))
    assert {name[0] for name in chosen.values()} == expected
    assert len(chosen) == 2


def test_spread_counts_what_the_pass_has_reserved() -> None:
    """Zone a alone has volumes: the second pod would be two ahead of zone b."""
    decisions = planned(view(*hosts(a=3, b=3), *zonal(a=4), *dbs(2, SPREAD)))
    assert isinstance(decisions["db-0"], Reserve)
    assert isinstance(decisions["db-1"], Reject)


def test_spread_over_nodes_waits_where_it_is_not_certain_on_which_node_a_reserved_pod_will_be() -> None:
    chosen = places(view(*hosts(a=2, b=2), *zonal(a=2, b=2), *dbs(4, SPREAD_BY_NODE)))
    assert sorted(name[0] for name in chosen.values()) == ["a", "b"]


def test_affinity_needs_a_pod_to_be_near() -> None:
    assert places(view(*hosts(a=1, b=1), *zonal(a=1), *db(0, TOGETHER, labels={"app": "web"}))) == {}
    running = pod("db-9", node="b1", labels={"app": "db"})
    seen = view(*hosts(a=1, b=1), *zonal(a=1, b=1), running, *db(0, TOGETHER, labels={"app": "web"}))
    assert places(seen) == {"db-0": "b1"}


def test_the_first_pod_of_a_series_needs_no_other_and_the_others_follow_it() -> None:
    chosen = places(view(*hosts(a=2, b=2), *zonal(a=2, b=2), *dbs(3, TOGETHER)))
    assert len(chosen) == 2
    assert len({name[0] for name in chosen.values()}) == 1


def test_a_pod_without_a_node_does_not_satisfy_the_affinity_of_another_kind() -> None:
    """It may lose its volumes yet, and then the other would have been bound to a zone where no pod comes."""
    web = db(0, TOGETHER, labels={"app": "web"})
    assert places(view(*hosts(a=2, b=2), *zonal(b=2), *web, *db(1, None))).keys() == {"db-1"}


def test_a_pod_that_is_wanted_near_may_get_volumes_although_the_other_waits_with_its_own() -> None:
    running = pod("db-9", node="a1", labels={"app": "db"})
    seen = view(*hosts(a=2, b=2), *zonal(a=1, b=1), running, *db(0, TOGETHER, labels={"app": "web"}), *db(1, None))
    assert {name: node[0] for name, node in places(seen).items()} == {"db-0": "a", "db-1": "b"}


def test_spread_counts_pods_that_are_placed_later_in_the_pass() -> None:
    """Zone b gets its pod after zone a got one, and only then zone a may have a second, which is requested first."""
    records = [*hosts(a=2, b=2), *zonal(a=2, b=1), *db(0, SPREAD), *db(1, SPREAD), *db(2, SPREAD)]
    assert sorted(name[0] for name in places(view(*records)).values()) == ["a", "a", "b"]


def test_a_port_of_a_node_is_taken_once() -> None:
    taken = pod("postgres", node="n1", constraints=PORT)
    assert places(view(*LOCAL, taken, *db(0, PORT))) == {"db-0": "n2"}
    assert places(view(*LOCAL, *dbs(3, PORT))) == {"db-0": "n1", "db-1": "n2"}
    other = Constraints(ports=(HostPort(5433),))
    assert places(view(*LOCAL, taken, *db(0, other))) == {"db-0": "n1"}


def test_an_inline_disk_is_used_once_on_a_node() -> None:
    disk = Constraints(disks=(InlineDisk(GCE, ("d",)),))
    assert places(view(*LOCAL, pod("other", node="n1", constraints=disk), *db(0, disk))) == {"db-0": "n2"}
    assert places(view(*LOCAL, *dbs(2, disk))) == {"db-0": "n1", "db-1": "n2"}


def test_pods_that_have_ended_or_require_nothing_of_these_keep_no_pod_away() -> None:
    ended = pod("guard", node="n1", constraints=APART, phase="Succeeded")
    web = pod(
        "web", node="n1", constraints=Constraints(anti_affinity=(PodTerm(HOSTNAME, LabelSelector((("x", "y"),))),))
    )
    assert places(view(*LOCAL, ended, web, *db(0, None))) == {"db-0": "n1"}


def test_a_pod_that_was_put_on_its_node_by_hand_is_there_already() -> None:
    running = pod("db-9", node="n1", labels={"app": "db"})
    assert places(view(*LOCAL, running, *db(0, node="n1"))) == {"db-0": "n1"}


def test_pods_alike_in_all_but_their_affinity_are_allowed_on_different_nodes() -> None:
    """The first one gets no volume: there is none in zone a. The other is tried when nothing has been booked since."""

    def near(name: str, app: str, priority: int) -> list[Record]:
        term = PodTerm(ZONE, LabelSelector((("app", app),)))
        constraints = Constraints(affinity=(term,))
        return [claim(name), pod(name, claims=[name], priority=priority, constraints=constraints)]

    running = [pod(app, node=name, labels={"app": app}) for app, name in (("cache", "a1"), ("front", "b1"))]
    seen = view(*hosts(a=1, b=1), *zonal(b=2), *running, *near("first", "cache", 1), *near("second", "front", 0))
    assert places(seen) == {"second": "b1"}
