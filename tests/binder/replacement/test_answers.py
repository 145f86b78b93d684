"""What a user is told when nothing is done: why, and what would help."""

import pytest
from msgspec import Struct
from msgspec.structs import replace

from binder.replacement.decision import NotReplaced, Waiting, decide
from binder.replacement.request import ReplaceRequest
from binder.replacement.situation import Situation
from binder.replacement.turn import Swap, Turn
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
from tests.builders import claim, node, reference, volume

SWAPS = (Swap("data-db-2", "uid-old", "pv-old", "pv-new"),)
KEPT = {OURS.was_for: "default/data-db-2/uid-old", OURS.namespace_uid: NAMESPACE_UID}
REPLACING = {OURS.replaces: "default/data-db-2/uid-old/pv-old", OURS.namespace_uid: NAMESPACE_UID}
RESERVED = volume("pv-new", node="n3", claim="default/data-db-2", annotations=REPLACING)
WHOLE: tuple[Struct, ...] = (*NODES, node("n2"), bound_claim(), old_volume())


def answer(of: Situation, **request: bool) -> NotReplaced:
    decision = decide(of, ReplaceRequest(**request))
    assert isinstance(decision, NotReplaced), decision
    return decision


def test_each_volume_that_is_not_lost_has_its_reason() -> None:
    decision = answer(situation(*WHOLE, replica("n2")))
    assert decision.why.why == (
        "no volume of the pod is proven to be lost: volume pv-old is not reported as unhealthy, and its node exists"
    )
    assert decision.why.next == ""
    bare = answer(situation(*NODES, claim("data-db-2"), replica()))
    assert bare.why.why == "no volume of the pod is proven to be lost: none of its claims has a volume yet"


def test_a_volume_whose_node_is_not_ready_may_be_abandoned() -> None:
    decision = answer(situation(*WHOLE, replica("n2"), ready_nodes=["n1", "n3"]))
    assert decision.why.next == "--abandon gives up the volumes that are out of reach"


@pytest.mark.parametrize("give_back", [True, False])
def test_a_replacement_in_the_other_direction_is_named_with_the_flag_that_continues_it(give_back: bool) -> None:
    turn = Turn("db-2", SWAPS, "uid-default-db-2", give_back)
    decision = answer(
        situation(*NODES, bound_claim(), old_volume(), replica(), of=replicas(turn)), give_back=not give_back
    )
    assert decision.why.why == "a replacement in the other direction is under way"
    assert decision.why.next == f"run it {'with' if give_back else 'without'} --give-back"


@pytest.mark.parametrize("exists", [True, False])
def test_a_lower_pod_is_waited_for_only_as_long_as_this_one_does_not_exist(exists: bool) -> None:
    """An ordered set creates it after the lower ones; once it exists, they do not matter any more."""
    next_claim = replace(bound_claim("data-db-2", "", "uid-next"), phase="Pending")
    released = old_volume(annotations=KEPT, phase="Released")
    taken = replace(RESERVED, claim=reference("default/data-db-2", "uid-next"))
    own = [replica("n3", uid="uid-of-next-pod")] if exists else []
    turn = Turn("db-2", SWAPS, "uid-default-db-2")
    decision = decide(situation(*NODES, next_claim, released, taken, *own, of=replicas(turn)), ReplaceRequest())
    assert isinstance(decision, Waiting), decision
    assert decision.lower == ("" if exists else "db-0")
