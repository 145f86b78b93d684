"""When a hold ends, and whether its claimRef goes with it."""

from datetime import timedelta

import pytest

from binder.holds.ending import KEPT_WITHOUT_SET, Adoption, HoldCause
from kube.objects.model import Claim, Namespace, Volume
from kube.objects.stateful_set import StatefulSet
from tests.binder.holds.sets import OURS, PREBIND, held, nodes, passed, stateful_set
from tests.binder.views import view
from tests.builders import EPOCH, claim, node, pod, volume

LOST = {f"{OURS.prefix}health": "DataLoss", f"{OURS.prefix}health-since": "2026-01-01T00:00:00Z"}


def with_notes(subject: Volume, **notes: str) -> Volume:
    marks = dict(subject.annotations) | {f"{OURS.prefix}{key.replace('_', '-')}": text for key, text in notes.items()}
    return volume(subject.name, zone="a", claim=subject.claim, annotations=marks)


HELD = held("pv-1", "data-db-0")
WANTS = stateful_set(hold="1")


@pytest.mark.parametrize(
    ("subject", "owner", "there", "cause", "clear"),
    [
        pytest.param(HELD, stateful_set(hold=None), None, HoldCause.NOT_WANTED, True, id="annotation removed"),
        pytest.param(HELD, stateful_set(hold="1", start=1), None, HoldCause.NOT_WANTED, True, id="ordinals moved"),
        pytest.param(held("pv-1", "data-db-1"), WANTS, None, HoldCause.NOT_WANTED, True, id="number lowered"),
        pytest.param(
            HELD,
            stateful_set(hold="1", templates=[claim("other")]),
            None,
            HoldCause.NOT_WANTED,
            True,
            id="template gone",
        ),
        pytest.param(
            held("pv-1", "data-db-0", size="5Gi"), WANTS, None, HoldCause.NOT_WANTED, True, id="template grew"
        ),
        pytest.param(
            HELD,
            WANTS,
            claim("data-db-0", volume_name="pv-2", phase="Bound"),
            HoldCause.BOUND_ELSEWHERE,
            True,
            id="claim bound elsewhere",
        ),
        pytest.param(
            HELD, WANTS, claim("data-db-0", size="50Gi"), HoldCause.CLAIM_MISFITS, True, id="claim that is too large"
        ),
        pytest.param(
            volume("pv-1", zone="a", annotations=dict(HELD.annotations), claim="default/data-db-0", phase="Bound"),
            WANTS,
            None,
            HoldCause.FULFILLED,
            False,
            id="bound",
        ),
        pytest.param(
            volume("pv-1", zone="a", annotations=dict(HELD.annotations), claim="default/data-db-0", phase="Released"),
            WANTS,
            None,
            HoldCause.FULFILLED,
            False,
            id="released: never made Available by us",
        ),
        pytest.param(
            volume("pv-1", zone="a", annotations=dict(HELD.annotations)),
            WANTS,
            None,
            HoldCause.CLAIM_REF_CHANGED,
            False,
            id="claimRef removed by hand",
        ),
        pytest.param(with_notes(HELD, held_by="nobody"), WANTS, None, HoldCause.MALFORMED, True, id="malformed"),
        pytest.param(
            with_notes(HELD, held_for="elsewhere"), WANTS, None, HoldCause.MALFORMED, False, id="whose is unreadable"
        ),
        pytest.param(
            with_notes(HELD, health="DataLoss", health_since="2026-01-01T00:00:00Z"),
            WANTS,
            None,
            HoldCause.UNHEALTHY,
            True,
            id="unhealthy",
        ),
    ],
)
def test_a_hold_ends(
    subject: Volume, owner: StatefulSet, there: Claim | None, cause: HoldCause, *, clear: bool
) -> None:
    plan = passed([subject, *([there] if there else [])], owner)
    assert [(each.cause, each.clear) for each in plan.endings] == [(cause, clear)]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(None, id="the claim is still to come"),
        pytest.param(claim("data-db-0"), id="the claim has appeared"),
        pytest.param(claim("data-db-0", volume_name="pv-1"), id="the claim is being bound"),
    ],
)
def test_a_hold_stands(there: Claim | None) -> None:
    assert not passed([HELD, *([there] if there else [])], WANTS).endings


def test_an_unhealthy_volume_is_released_before_its_successor_is_held() -> None:
    unhealthy = with_notes(HELD, health="DataLoss", health_since="2026-01-01T00:00:00Z")
    plan = passed([unhealthy, volume("free", zone="a")], WANTS)
    assert [each.cause for each in plan.endings] == [HoldCause.UNHEALTHY]
    assert not plan.holds
    assert passed([volume("pv-1", zone="a", annotations=LOST), volume("free", zone="a")], WANTS).holds


@pytest.mark.parametrize("namespaces", [{}, {"default": Namespace("default", "uid-ns", 1, deleting=True)}])
def test_a_hold_ends_at_once_with_its_namespace(namespaces: dict[str, Namespace]) -> None:
    plan = passed([HELD], WANTS, namespaces=namespaces)
    assert [each.cause for each in plan.endings] == [HoldCause.NAMESPACE_GONE]


def test_a_hold_outlives_its_set_by_ten_minutes() -> None:
    gone = {"uid-set": EPOCH}
    assert not passed([HELD], missing_since=gone, now=EPOCH + KEPT_WITHOUT_SET - timedelta(seconds=1)).endings
    plan = passed([HELD], missing_since=gone, now=EPOCH + KEPT_WITHOUT_SET)
    assert [(each.cause, each.clear) for each in plan.endings] == [(HoldCause.SET_GONE, True)]


def test_a_set_created_again_under_the_name_takes_the_holds_over_only_if_they_fit() -> None:
    again = stateful_set(hold="1", uid="uid-new")
    assert passed([HELD], again).adoptions == (Adoption(HELD, "uid-new"),)
    larger = stateful_set(hold="1", uid="uid-new", templates=[claim("data", size="50Gi")])
    assert not passed([HELD], larger, missing_since={"uid-set": EPOCH}).adoptions


def test_a_set_created_again_that_does_not_want_them_ends_the_holds_at_once() -> None:
    plan = passed([HELD], stateful_set(hold="0", uid="uid-new"), missing_since={"uid-set": EPOCH}, now=EPOCH)
    assert [(each.cause, each.clear) for each in plan.endings] == [(HoldCause.NOT_WANTED, True)]


def test_of_two_volumes_for_one_name_one_is_given_up() -> None:
    plan = passed([HELD, held("pv-2", "data-db-0")], WANTS)
    assert [(each.volume.name, each.cause) for each in plan.endings] == [("pv-2", HoldCause.DUPLICATE)]


def test_a_hold_moves_when_no_node_fits_any_more() -> None:
    owner = stateful_set(hold="1", template=pod("db", node_selector={"disk": "fast"}))
    fitting = node("other", zone="b", labels={"disk": "fast"})
    plan = passed((), owner, seen=view(PREBIND, *nodes(), fitting, HELD, volume("free", zone="b")))
    assert [(each.volume.name, each.cause) for each in plan.endings] == [("pv-1", HoldCause.NO_NODE)]
    assert not plan.holds
