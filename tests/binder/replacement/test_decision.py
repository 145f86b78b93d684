"""What is done next about a lost volume, from what the API shows, and what speaks against it."""

from collections.abc import Iterable
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from binder.replacement.decision import Decision, Finished, NotReplaced, Plan, Waiting, decide
from binder.replacement.request import ReplaceRequest
from binder.replacement.steps import DeleteClaim, EvictPod, Step, Write
from binder.replacement.turn import Swap, Turn, format_turn, parse_turn
from kube.objects.model import PodClaim, Record, Volume, value_of
from kube.rules.merge_patch import merge_patched
from tests.binder.replacement.situations import (
    NAMESPACE_UID,
    NODES,
    OURS,
    bound_claim,
    old_volume,
    replica,
    replicas,
    situation,
)
from tests.builders import node, pod, reference, volume

TURN = Turn("db-2", (Swap("data-db-2", "uid-old", "pv-old", "pv-new"),), "uid-default-db-2")
NEW = volume("pv-new", node="n3")
BROKEN: tuple[Record, ...] = (*NODES, bound_claim(), old_volume(), replica())
KEPT = {OURS.was_for: "default/data-db-2/uid-old", OURS.namespace_uid: NAMESPACE_UID}
REPLACING = {OURS.replaces: "default/data-db-2/uid-old/pv-old", OURS.namespace_uid: NAMESPACE_UID}
RESERVED = volume("pv-new", node="n3", claim="default/data-db-2", annotations=REPLACING)
MARKED = old_volume(annotations=KEPT)
RELEASED = old_volume(annotations=KEPT, phase="Released")


def decided(*records: Struct, abandon: bool = False, give_back: bool = False, **others: Any) -> Decision:
    return decide(situation(*records, **others), ReplaceRequest(abandon=abandon, give_back=give_back))


def words(steps: Iterable[Step]) -> list[str]:
    """Each step in short: what it is done to."""
    short: list[str] = []
    for step in steps:
        match step:
            case Write():
                short.append(f"write {step.name}")
            case DeleteClaim():
                short.append(f"delete {step.claim.name}")
            case EvictPod():
                short.append(f"{'dry-run' if step.dry_run else 'evict'} {step.pod.name}")
    return short


def steps_of(decision: Decision) -> list[str]:
    assert isinstance(decision, Plan), decision
    return words(decision.steps)


def why(decision: Decision) -> str:
    assert isinstance(decision, NotReplaced), decision
    return decision.why.why


def test_the_claim_is_deleted_before_the_pod_is_evicted_and_after_the_new_volume_is_reserved() -> None:
    decision = decided(*BROKEN, NEW)
    assert steps_of(decision) == [
        "write db",
        "write pv-old",
        "write pv-new",
        "dry-run db-2",
        "delete data-db-2",
        "evict db-2",
    ]
    assert isinstance(decision, Plan)
    assert decision.turn == TURN
    take, keep, reserve, *_ = decision.steps
    assert isinstance(take, Write)
    assert isinstance(keep, Write)
    assert isinstance(reserve, Write)
    assert (take.uid, take.version) == ("uid-set", 5)
    assert parse_turn(take.body["metadata"]["annotations"][OURS.replaces]) == TURN
    assert keep.body["metadata"]["annotations"] == KEPT
    assert reserve.body["metadata"]["annotations"] == REPLACING
    written = merge_patched({}, reserve.body["spec"])["claimRef"]
    assert (written["namespace"], written["name"], written.get("uid")) == ("default", "data-db-2", None)


@pytest.mark.parametrize(
    ("records", "steps"),
    [
        pytest.param(
            [old_volume(), NEW], ["write pv-old", "write pv-new", "dry-run db-2", "delete data-db-2", "evict db-2"]
        ),
        pytest.param([MARKED, NEW], ["write pv-new", "dry-run db-2", "delete data-db-2", "evict db-2"]),
        pytest.param([MARKED, RESERVED], ["dry-run db-2", "delete data-db-2", "evict db-2"]),
    ],
    ids=["turn taken", "old volume marked", "new volume reserved"],
)
def test_it_goes_on_after_each_write(records: list[Volume], steps: list[str]) -> None:
    assert steps_of(decided(*NODES, bound_claim(), replica(), *records, of=replicas(TURN))) == steps


def test_after_the_deletion_the_pod_is_evicted_and_no_proof_is_needed() -> None:
    going = replace(bound_claim(), deleting=True)
    back = node("n2")
    assert steps_of(decided(*NODES, back, going, MARKED, RESERVED, replica("n2"), of=replicas(TURN))) == ["evict db-2"]


def test_a_pod_that_is_terminating_is_reported_and_never_forced() -> None:
    going = replace(bound_claim(), deleting=True)
    decision = decided(*NODES, going, MARKED, RESERVED, replica("n1", deleting=True), of=replicas(TURN))
    assert isinstance(decision, Waiting)
    assert "Terminating on node n1" in decision.what


def test_a_claim_of_the_next_uid_is_bound_and_the_marks_end() -> None:
    new = bound_claim(volume_name="pv-new", uid="uid-next")
    taken = replace(RESERVED, claim=reference("default/data-db-2", "uid-next"), phase="Bound")
    records = [*NODES, new, RELEASED, replica("n3", uid="uid-of-next-pod")]
    first = decided(*records, taken, of=replicas(TURN), ready=["default/db-2"])
    assert steps_of(first) == ["write pv-new"]
    clean = replace(taken, annotations=())
    last = decided(*records, clean, of=replicas(TURN), ready=["default/db-2"])
    assert steps_of(last) == ["write db"]
    assert isinstance(last, Plan)
    assert last.result == "data-db-2 has pv-new"
    waiting = decided(*records, clean, of=replicas(TURN))
    assert isinstance(waiting, Waiting), "the turn lasts until the pod is Ready"


def test_without_its_turn_the_marks_of_the_new_volume_say_what_is_under_way() -> None:
    decision = decided(*NODES, RELEASED, RESERVED, pod_name="db-2", of=replicas())
    assert isinstance(decision, Waiting)
    assert decision.lower == "db-0"


def test_a_node_back_under_its_name_takes_everything_back() -> None:
    decision = decided(*NODES, node("n2"), bound_claim(), MARKED, RESERVED, replica(), of=replicas(TURN))
    assert steps_of(decision) == ["write pv-new", "write pv-old", "write db"]
    assert isinstance(decision, Plan)
    assert decision.ended is not None
    release, unmark, end = decision.steps
    assert isinstance(release, Write)
    assert release.body["spec"] == {"claimRef": None}
    assert isinstance(unmark, Write)
    assert set(unmark.body["metadata"]["annotations"].values()) == {None}
    assert isinstance(end, Write)
    assert end.body["metadata"]["annotations"] == {OURS.replaces: None}


def test_a_volume_that_others_took_is_chosen_again() -> None:
    taken = volume("pv-new", node="n3", claim=reference("default/other", "uid-other"), phase="Bound")
    decision = decided(*NODES, bound_claim(), MARKED, taken, volume("pv-next", node="n1"), replica(), of=replicas(TURN))
    assert isinstance(decision, Plan)
    assert words(decision.steps) == ["write db"]
    assert decision.turn.swaps[0].new == "pv-next"


def test_a_reserved_volume_that_becomes_unhealthy_is_released_first() -> None:
    unhealthy = replace(RESERVED, annotations=(*RESERVED.annotations, (OURS.health, "DataLoss")))
    decision = decided(
        *NODES, bound_claim(), MARKED, unhealthy, volume("pv-next", node="n1"), replica(), of=replicas(TURN)
    )
    assert steps_of(decision) == ["write pv-new"]


def test_no_kept_volume_is_a_candidate_even_if_its_claim_ref_is_gone() -> None:
    kept = volume("pv-kept", node="n1", annotations={OURS.was_for: "default/data-db-0/x", OURS.namespace_uid: "x"})
    assert "no node has healthy Available volumes" in why(decided(*BROKEN, kept))
    assert "no node has healthy Available volumes" in why(
        decided(*BROKEN, volume("pv-k", node="n1", annotations=REPLACING))
    )


def test_the_volumes_that_stay_and_those_that_come_are_in_reach_of_one_node() -> None:
    log = bound_claim("log-db-2", "pv-log", "uid-log")
    on_n1 = volume("pv-log", node="n1", claim=reference("default/log-db-2", "uid-log"), phase="Bound")
    both = pod("db-2", claims=["data-db-2", "log-db-2"])
    records = [*NODES, bound_claim(), old_volume(), log, on_n1, both, NEW]
    assert "no node has healthy Available volumes" in why(decided(*records))
    decision = decided(*records, volume("pv-near", node="n1", size="100Gi"))
    assert isinstance(decision, Plan)
    assert [swap.new for swap in decision.turn.swaps] == ["pv-near"]


@pytest.mark.parametrize(
    ("records", "others", "reason"),
    [
        pytest.param(
            [*NODES, node("n2"), bound_claim(), old_volume(), replica(), NEW], {}, "proven to be lost", id="node"
        ),
        pytest.param(
            [*NODES, bound_claim(), old_volume(reclaim_policy="Delete"), replica(), NEW], {}, "Delete", id="del"
        ),
        pytest.param([*BROKEN, NEW, volume("x", claim="default/data-db-2")], {}, "names claim", id="named already"),
        pytest.param([*BROKEN, pod("reader", claims=["data-db-2"], node="n1"), NEW], {}, "uses claim", id="in use"),
        pytest.param([*BROKEN], {}, "no node has healthy", id="no volume"),
    ],
)
def test_what_prevents_it(records: list[Record], others: dict[str, Any], reason: str) -> None:
    assert reason in why(decided(*records, **others))


def test_generic_ephemeral_volumes_belong_to_the_pod() -> None:

    ephemeral = pod("db-2", claims=[PodClaim("db-2-scratch", ephemeral=True)])
    decision = decided(*NODES, ephemeral)
    assert isinstance(decision, NotReplaced)
    assert decision.why.next.startswith("nothing to replace")


def test_an_ephemeral_volume_beside_does_not_keep_the_others_from_a_volume() -> None:
    """Its claim comes with the next pod, so that it does not exist before."""
    to_come = pod("db-2", claims=["data-db-2", PodClaim("db-2-scratch", ephemeral=True)])
    decision = decide(changed(situation(*NODES, bound_claim(), old_volume(), NEW), template=to_come), ReplaceRequest())
    assert isinstance(decision, Plan)
    assert [swap.new for swap in decision.turn.swaps] == ["pv-new"]


def test_a_claim_that_cannot_be_planned_is_not_given_up() -> None:
    """Another claim of the pod does not exist, so that no volume can be chosen now."""
    other = pod("db-2", claims=["data-db-2", "log-db-2"])
    decision = decide(changed(situation(*NODES, bound_claim(), old_volume(), NEW), template=other), ReplaceRequest())
    assert isinstance(decision, NotReplaced), decision


def test_a_pod_that_nothing_creates_again_is_left_alone() -> None:
    bare = changed(situation(*BROKEN, NEW), replicas=None)
    assert "no controller" in why(decide(bare, ReplaceRequest()))


def test_the_claim_of_another_owner_carries_the_turn() -> None:
    bare = changed(situation(*BROKEN, NEW), replicas=None, owner="Cluster/pg", next_claims=(bound_claim(),))
    decision = decide(bare, ReplaceRequest())
    assert isinstance(decision, Plan)
    take = decision.steps[0]
    assert isinstance(take, Write)
    assert (take.resource.kind, take.name, take.version) == ("PersistentVolumeClaim", "data-db-2", 7)


OTHER = Turn("db-1", (Swap("data-db-1", "uid-1", "pv-1", "pv-x"),))
HIGHER = Turn("db-3", (Swap("data-db-3", "uid-3", "pv-3", "pv-x"),))


@pytest.mark.parametrize(
    ("turn", "records", "ordered", "ready", "is_free"),
    [
        pytest.param(OTHER, [bound_claim("data-db-1", "pv-1", "uid-1")], True, False, False, id="nothing deleted"),
        pytest.param(OTHER, [], True, False, False, id="the other is not Ready yet"),
        pytest.param(OTHER, [], True, True, True, id="the other is Ready"),
        pytest.param(HIGHER, [], True, False, True, id="waits for this lower ordinal only"),
        pytest.param(HIGHER, [bound_claim("data-db-3", "pv-3", "uid-3")], True, False, False, id="not deleted yet"),
        pytest.param(HIGHER, [], False, False, False, id="Parallel"),
    ],
)
def test_one_replica_has_its_turn_at_a_time(
    turn: Turn, records: list[Record], ordered: bool, ready: bool, is_free: bool
) -> None:
    owner = replicas(turn, ordered=ordered, count=4)
    decision = decided(*BROKEN, NEW, *records, of=owner, ready=[f"default/{turn.pod}"] if ready else [])
    assert isinstance(decision, Plan) is is_free, decision


@pytest.mark.parametrize(("ordered", "is_first"), [(True, True), (False, False)], ids=["OrderedReady", "Parallel"])
def test_the_lowest_broken_ordinal_comes_first(ordered: bool, is_first: bool) -> None:
    lower = [
        bound_claim("data-db-1", "pv-1", "uid-1"),
        volume("pv-1", node="n2", claim=reference("default/data-db-1", "uid-1"), phase="Bound"),
    ]
    decision = decided(*BROKEN, NEW, *lower, of=replicas(ordered=ordered))
    assert isinstance(decision, NotReplaced) is is_first
    if isinstance(decision, NotReplaced):
        assert "replace pod/db-1" in decision.why.next


def test_fenced_without_lost_needs_abandon() -> None:
    unhealthy = old_volume(node=None, zone="a", annotations={OURS.health: "Inaccessible", OURS.health_reason: "Down"})
    records = [*NODES, bound_claim(), unhealthy, replica(), NEW]
    rejected = decided(*records)
    assert isinstance(rejected, NotReplaced)
    assert "--abandon" in rejected.why.next
    decision = decided(*records, abandon=True)
    assert isinstance(decision, Plan)
    assert [name for name, _ in decision.proofs] == ["db-2"], "the loss is the user's word"


def given_back(*, is_deleting: bool = False, turn: bool = False, abandon: bool = True, **old: Any) -> Decision:
    present = replace(bound_claim(volume_name="pv-now", uid="uid-now"), deleting=is_deleting)
    now = volume("pv-now", node="n1", claim=reference("default/data-db-2", "uid-now"), phase="Bound")
    if turn:
        marks = {OURS.was_for: "default/data-db-2/uid-now", OURS.namespace_uid: NAMESPACE_UID}
        now = replace(now, annotations=tuple(sorted(marks.items())))
    kept = old_volume(**({"annotations": KEPT, "phase": "Released"} | old))
    of = (
        replicas(Turn("db-2", (Swap("data-db-2", "uid-now", "pv-now", "pv-old"),), "", give_back=True))
        if turn
        else None
    )
    records = [node("n1"), node("n2"), present, now, kept]
    return decided(*records, of=of, give_back=True, abandon=abandon, ready_nodes=["n2"])


def test_giving_back_drops_no_uid_while_the_claim_has_another_volume() -> None:
    assert steps_of(given_back()) == ["write db", "write pv-now", "delete data-db-2", "write pv-old"]
    assert steps_of(given_back(turn=True)) == ["delete data-db-2", "write pv-old"]
    after = given_back(turn=True, is_deleting=True)
    assert steps_of(after) == ["write pv-old"]
    assert isinstance(after, Plan)
    (step,) = after.steps
    assert isinstance(step, Write)
    assert step.body["spec"]["claimRef"]["uid"] is None


@pytest.mark.parametrize(
    ("old", "abandon"),
    [
        pytest.param({}, False, id="the present volume is not lost"),
        pytest.param({"annotations": {**KEPT, OURS.namespace_uid: "another"}}, True, id="another tenant's"),
        pytest.param({"annotations": {**KEPT, OURS.health: "DataLoss"}}, True, id="unhealthy"),
        pytest.param({"node": "n9"}, True, id="out of reach"),
        pytest.param({"annotations": None}, True, id="not kept by a replacement"),
    ],
)
def test_what_is_not_given_back(old: dict[str, Any], abandon: bool) -> None:
    assert isinstance(given_back(abandon=abandon, **old), NotReplaced)


def test_no_claim_is_deleted_for_a_kept_volume_that_became_unhealthy() -> None:
    """Its claimRef has the uid of an earlier claim: with that mark it looks like a bind that has begun."""
    left = {**KEPT, OURS.replaces: "default/data-db-2/uid-first/pv-first"}
    assert steps_of(given_back(turn=True, annotations=left))[0] == "delete data-db-2"
    unhealthy = {**left, OURS.health: "DataLoss"}
    assert steps_of(given_back(turn=True, annotations=unhealthy)) == ["write pv-now", "write db"]


def test_a_kept_volume_whose_claim_got_another_one_names_its_earlier_claim_again() -> None:
    turn = Turn("db-2", (Swap("data-db-2", "uid-now", "pv-now", "pv-old"),), "", give_back=True)
    both = {**KEPT, OURS.replaces: "default/data-db-2/uid-now/pv-now"}
    free = old_volume(annotations=both, phase="Available", claim="default/data-db-2")
    other = bound_claim(volume_name="pv-else", uid="uid-next")
    elsewhere = volume("pv-else", node="n1", claim=reference("default/data-db-2", "uid-next"), phase="Bound")
    decision = decided(node("n1"), node("n2"), other, elsewhere, free, of=replicas(turn), give_back=True, abandon=True)
    assert isinstance(decision, Plan)
    (step,) = decision.steps
    assert isinstance(step, Write)
    assert step.body["spec"] == {"claimRef": {"uid": "uid-old"}}


def test_a_finished_replacement_without_a_turn_is_finished() -> None:
    taken = replace(RESERVED, claim=reference("default/data-db-2", "uid-next"), phase="Bound")
    records = [*NODES, bound_claim(volume_name="pv-new", uid="uid-next"), RELEASED, replica("n3")]
    assert steps_of(decided(*records, taken, ready=["default/db-2"])) == ["write pv-new"]
    clean = replace(taken, annotations=())
    assert decided(*records, clean, ready=["default/db-2"]) == Finished("data-db-2 has pv-new")
    assert "proven to be lost" in why(decided(*records, clean))
    assert "proven to be lost" in why(decided(*records[:3], records[4], clean, ready=["default/db-2"]))


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "yes", '{"pod":"db-1","swaps":[]}', "\ud800"])
def test_a_turn_that_cannot_be_read_counts_as_none(text: str | None) -> None:
    assert parse_turn(text) is None


def test_a_turn_is_read_as_it_was_written() -> None:
    assert parse_turn(format_turn(TURN)) == TURN
    assert value_of(RESERVED.annotations, OURS.replaces) is not None
    assert not isinstance(decided(*BROKEN, NEW), Finished)
