"""A volume that is set aside fits no claim and is given back as it was, once its claim has no more use for it."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from binder.reservation.contract import Annotations
from binder.reservation.set_aside import (
    UNUSED_FOR,
    as_offered,
    end_set_aside,
    ends_at,
    is_set_aside,
    set_aside,
    set_aside_for,
    set_aside_keys,
    set_aside_of,
)
from kube.objects.model import SELECTED_NODE, Claim, ClaimReference, Record, Volume
from kube.store.store import snapshot_of
from tests.builders import claim, pod, reference, volume
from tests.fake_clock import START

OURS = Annotations()
OWNER = claim("data")
OTHER = claim("log", annotations={SELECTED_NODE: "node-1"})
USER = pod(claims=["data", "log"], scheduling_gates=[OURS.gate])
ALONE = pod(claims=["data"], scheduling_gates=[OURS.gate])
NOW = START + timedelta(seconds=10)


def kept(name: str = "pv-1", owner: Claim = OWNER, since: datetime = START, **changes: Any) -> Volume:
    """The volume after the write that sets it aside."""
    written = set_aside(volume(name), owner, "prebinder", since, OURS)
    named = msgspec.convert(
        {key: value for key, value in written["spec"]["claimRef"].items() if key in {"namespace", "name"}},
        ClaimReference,
    )
    return volume(name, **{"claim": named, "annotations": written["metadata"]["annotations"]} | changes)


def test_a_volume_set_aside_names_no_claim_that_exists_and_says_for_which_one_it_is() -> None:
    volumes = [kept("pv-1"), kept("pv-2")]
    assert all(is_set_aside(each) and each.claim and not each.claim.uid for each in volumes)
    assert len({each.claim for each in volumes}) == 2, "no claim has two volumes, not even one that does not exist"
    record = set_aside_of(volumes[0], OURS)
    assert record is not None
    assert (record.claim, record.claim_uid, record.since) == (OWNER.key, OWNER.uid, START)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"claim": None}, id="the placeholder was removed"),
        pytest.param({"claim": "default/data"}, id="it was given to a claim"),
        pytest.param({"claim": reference("prebinder/set-aside-pv-1", "uid-1")}, id="the placeholder has a uid"),
        pytest.param({"claim": reference("prebinder/set-aside-pv-2")}, id="the placeholder of another volume"),
        pytest.param({"phase": "Bound"}, id="bound"),
        pytest.param({"phase": "Released"}, id="released"),
    ],
)
def test_what_another_writer_changed_is_not_set_aside_and_its_claim_ref_stays(changes: dict[str, Any]) -> None:
    changed = kept(**changes)
    assert set_aside_of(changed, OURS) is None
    assert as_offered(changed, OWNER, OURS) == changed
    assert end_set_aside(changed, OURS) == {"metadata": {"annotations": dict.fromkeys(set_aside_keys(changed, OURS))}}


@pytest.mark.parametrize("key", [OURS.set_aside_for, OURS.set_aside_for_uid, OURS.set_aside_at])
def test_an_incomplete_record_counts_for_no_claim_and_is_removed_with_the_placeholder(key: str) -> None:
    left = {name: value for name, value in kept().annotations if name != key}
    broken = kept(annotations=left)
    assert set_aside_of(broken, OURS) is None
    assert set_aside_for(OWNER, snapshot_of([broken, OWNER]), OURS) is None
    assert ends_at(broken, snapshot_of([broken, OWNER, OTHER, USER]), OURS, NOW) == NOW
    assert end_set_aside(broken, OURS) == {
        "metadata": {"annotations": dict.fromkeys(left)},
        "spec": {"claimRef": None},
    }


def test_it_is_offered_as_it_was_to_its_claim_alone() -> None:
    assert as_offered(kept(), OWNER, OURS).claim is None
    for other in (claim("log"), claim("data", uid="recreated"), claim("log", uid=OWNER.uid)):
        assert as_offered(kept(), other, OURS) == kept()


def test_of_several_the_one_chosen_last_is_the_claims() -> None:
    later = START + timedelta(seconds=1)
    several = [kept("pv-1"), kept("pv-2", since=later), kept("pv-3"), kept("pv-4", owner=claim("log"))]
    there = snapshot_of([*several, OWNER, OTHER, USER])
    assert set_aside_for(OWNER, there, OURS) == several[1]
    assert set_aside_for(claim("data", uid="recreated"), there, OURS) is None
    assert [ends_at(each, there, OURS, NOW) for each in several[:3]] == [NOW, None, NOW]


@pytest.mark.parametrize(
    ("records", "ends"),
    [
        pytest.param((OWNER, OTHER, USER), None, id="another volume of the pod is being made"),
        pytest.param((OWNER, claim("log", volume_name="pv-9"), USER), None, id="the other claim has one"),
        pytest.param((OWNER, claim("log"), USER), START + UNUSED_FOR, id="none is being made"),
        pytest.param((OWNER, USER), START + UNUSED_FOR, id="the other claim is gone"),
        pytest.param((claim("data", annotations={SELECTED_NODE: "n"}), OTHER, ALONE), START + UNUSED_FOR,
                     id="its own claim alone is no reason"),
        pytest.param((OTHER, USER), NOW, id="no claim"),
        pytest.param((claim("data", uid="recreated"), OTHER, USER), NOW, id="its claim was created again"),
        pytest.param((claim("data", deleting=True), OTHER, USER), NOW, id="its claim ends"),
        pytest.param((claim("data", volume_name="pv-9"), OTHER, USER), NOW, id="its claim has a volume"),
        pytest.param((OWNER, OTHER), NOW, id="no pod"),
        pytest.param((OWNER, OTHER, pod(claims=["data", "log"])), NOW, id="the pod is not behind our gate"),
        pytest.param((OWNER, OTHER, pod(claims=["data", "log"], scheduling_gates=[OURS.gate], deleting=True)), NOW,
                     id="the pod ends"),
        pytest.param((OWNER, OTHER, pod(claims=["data", "log"], scheduling_gates=[OURS.gate], node="node-1")), NOW,
                     id="the pod is on a node"),
    ],
)  # fmt: skip
def test_it_ends_when_its_reason_is_gone(records: tuple[Record, ...], ends: datetime | None) -> None:
    assert ends_at(kept(), snapshot_of([kept(), *records]), OURS, NOW) == ends


def test_it_never_ends_in_the_past() -> None:
    late = START + 2 * UNUSED_FOR
    assert ends_at(kept(), snapshot_of([kept(), OWNER, USER]), OURS, late) == late
