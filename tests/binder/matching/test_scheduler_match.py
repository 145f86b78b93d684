"""What kube-scheduler takes for claims on a node, and why each other volume was left."""

from collections.abc import Mapping, Sequence

import pytest

from binder.matching.match import Match
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import match_as_scheduler, match_pod_as_scheduler
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim, Volume
from tests.builders import claim, node, reference, storage_class, volume

CLASSES = {"fast": storage_class()}
MINE = reference("default/data")
NODE = node("n1", zone="a")


def by_name(volumes: Sequence[Volume]) -> dict[str, Volume]:
    return {volume.name: volume for volume in volumes}


def match(wanted: Claim, volumes: Sequence[Volume], taken: Mapping[str, str] | None = None) -> Match:
    return match_as_scheduler(wanted, NODE, CLASSES, by_name(volumes), taken)


def outcome(result: Match, volumes: Sequence[Volume]) -> tuple[str | None, dict[str, Reason]]:
    return result.volume.name if result.volume else None, {
        volume.name: reason for volume, reason in result.rejected_volumes(volumes)
    }


CHOICES = [
    pytest.param(
        [volume("a", zone="b"), volume("b", zone="a", size="30Gi"), volume("c", zone="a", size="20Gi")],
        "c",
        {"a": Reason.NODE_AFFINITY_MISMATCH, "b": Reason.LARGER_THAN_CHOSEN},
        id="the smallest within reach",
    ),
    pytest.param(
        [volume("a", access_modes=["ReadWriteOnce", "ReadOnlyMany"]), volume("b", size="11Gi")],
        "a",
        {"b": Reason.LARGER_THAN_CHOSEN},
        id="here more access modes are no worse",
    ),
    pytest.param(
        [volume("b"), volume("a", node="n1")], "a", {"b": Reason.TIED_WITH_CHOSEN}, id="equal sizes: the first by name"
    ),
    pytest.param(
        [volume("a"), volume("b", claim=MINE, size="90Gi", access_modes=[])],
        "b",
        {"a": Reason.OTHER_VOLUME_PREBOUND},
        id="the volume that names the claim",
    ),
    pytest.param(
        [volume("a"), volume("b", claim=MINE, zone="b"), volume("c", size="1Gi")],
        None,
        {"a": Reason.OTHER_VOLUME_PREBOUND, "b": Reason.NODE_AFFINITY_MISMATCH, "c": Reason.TOO_SMALL},
        id="out of reach it spoils the node",
    ),
    pytest.param(
        [volume("a"), volume("b", claim=MINE, storage_class="slow")],
        "a",
        {"b": Reason.CLASS_MISMATCH},
        id="of another class it is not seen",
    ),
    pytest.param(
        [volume("a"), volume("b", claim=MINE, size="1Gi", zone="b")],
        "a",
        {"b": Reason.TOO_SMALL},
        id="too small it does not count",
    ),
]


@pytest.mark.parametrize(("volumes", "chosen", "rejected"), CHOICES)
def test_chooses(volumes: list[Volume], chosen: str | None, rejected: dict[str, Reason]) -> None:
    result = match(claim(), volumes)
    assert outcome(result, volumes) == (chosen, rejected)
    assert (result.binding_mode, result.node) == ("WaitForFirstConsumer", NODE)
    assert result.reason == (None if chosen else Reason.NO_VOLUME_FITS)


def test_the_scheduler_knows_no_default_class() -> None:
    classes = {"std": storage_class("std", is_default=True)}
    result = match_as_scheduler(claim(storage_class=None), NODE, classes, by_name([volume("a", storage_class="std")]))
    assert outcome(result, [volume("a", storage_class="std")]) == (None, {"a": Reason.CLASS_MISMATCH})


def test_claims_that_are_not_matched_at_all() -> None:
    volumes = [volume("a")]
    bound = match(claim(volume_name="a", annotations={BIND_COMPLETED: "yes"}), volumes)
    assert outcome(bound, volumes) == ("a", {})
    named = match(claim(volume_name="b"), volumes)
    assert outcome(named, volumes) == (None, {"a": Reason.OTHER_VOLUME_REQUESTED})
    ordered = match(claim(annotations={SELECTED_NODE: "n2"}), volumes)
    assert outcome(ordered, volumes) == (None, {"a": Reason.PROVISIONING_CHOSEN})
    unparsable = match(claim(selector=LabelSelector((), (Requirement("x", "Near", ()),))), volumes)
    assert outcome(unparsable, volumes) == (None, {"a": Reason.SELECTOR_MISMATCH})
    unset = match_as_scheduler(claim(), NODE, {"fast": storage_class(binding_mode=None)}, by_name(volumes))
    assert outcome(unset, volumes) == (None, {"a": Reason.BINDING_MODE_MISSING})


def chosen_for_pod(claims: Sequence[Claim], volumes: Sequence[Volume]) -> dict[str, str | None]:
    matches = match_pod_as_scheduler(claims, NODE, CLASSES, by_name(volumes))
    return {match.claim.name: match.volume.name if match.volume else None for match in matches}


def test_claims_of_a_pod_share_no_volume_and_the_smallest_request_goes_first() -> None:
    claims = [claim("large", size="8Gi"), claim("small", size="5Gi"), claim("tiny", size="1Gi")]
    volumes = [volume("a", size="10Gi"), volume("b", size="20Gi")]
    assert chosen_for_pod(claims, volumes) == {"tiny": "a", "small": "b", "large": None}
    last = match_pod_as_scheduler(claims, NODE, CLASSES, by_name(volumes))[-1]
    evidence = {rejection.subject: (rejection.reason, rejection.offered) for rejection in last.rejections(volumes)}
    assert evidence == {
        "a": (Reason.TAKEN_BY_OTHER_CLAIM_OF_POD, "taken by default/tiny"),
        "b": (Reason.TAKEN_BY_OTHER_CLAIM_OF_POD, "taken by default/small"),
    }


def test_a_choice_is_never_revised() -> None:
    """The claim that could use either volume goes first and takes the only one its sibling could use."""
    either, only_x = claim("either", size="1Gi"), claim("only-x", size="2Gi", selector=LabelSelector((("x", "1"),)))
    volumes = [volume("a", size="5Gi", labels={"x": "1"}), volume("b", size="6Gi")]
    assert chosen_for_pod([only_x, either], volumes) == {"either": "a", "only-x": None}


def test_equal_requests_go_by_name() -> None:
    assert chosen_for_pod([claim("y"), claim("x")], [volume("a")]) == {"x": "a", "y": None}
