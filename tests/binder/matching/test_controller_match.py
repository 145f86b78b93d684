"""What the PV controller does with a claim, and why each other volume was left."""

from collections.abc import Sequence

import pytest

from binder.matching.controller_match import match_as_controller
from binder.matching.match import Match
from binder.matching.rejection import Reason
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import BIND_COMPLETED, Claim, ClaimReference, StorageClass, Volume
from tests.builders import claim, reference, storage_class, volume

NOW = {"fast": storage_class(binding_mode="Immediate")}
LATER = {"fast": storage_class()}
MINE = reference("default/data")
RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


def match(wanted: Claim, volumes: Sequence[Volume], classes: dict[str, StorageClass] = NOW) -> Match:
    return match_as_controller(wanted, classes, {volume.name: volume for volume in volumes})


def outcome(result: Match, volumes: Sequence[Volume]) -> tuple[str | None, dict[str, Reason]]:
    return result.volume.name if result.volume else None, {
        volume.name: reason for volume, reason in result.rejected_volumes(volumes)
    }


CHOICES = [
    pytest.param([], None, {}, id="nothing there"),
    pytest.param([volume("a")], "a", {}, id="one"),
    pytest.param(
        [volume("a", size="20Gi"), volume("b"), volume("c", size="1Gi")],
        "b",
        {"a": Reason.LARGER_THAN_CHOSEN, "c": Reason.TOO_SMALL},
        id="the smallest that is large enough",
    ),
    pytest.param(
        [volume("b"), volume("a"), volume("c")],
        "a",
        {"b": Reason.TIED_WITH_CHOSEN, "c": Reason.TIED_WITH_CHOSEN},
        id="equal sizes: the first by name",
    ),
    pytest.param(
        [volume("a", access_modes=[RWO, ROX]), volume("b", size="100Gi")],
        "b",
        {"a": Reason.MORE_ACCESS_MODES_THAN_CHOSEN},
        id="fewer access modes before a smaller size",
    ),
    pytest.param(
        [volume("a", access_modes=[RWO, ROX], size="20Gi"), volume("b", access_modes=[RWO, RWX])],
        "b",
        {"a": Reason.LARGER_THAN_CHOSEN},
        id="as many modes, though others",
    ),
    pytest.param(
        [volume("a", access_modes=[RWO, RWO, "Odd"], size="20Gi"), volume("b", access_modes=[RWO, ROX])],
        "a",
        {"b": Reason.MORE_ACCESS_MODES_THAN_CHOSEN},
        id="modes twice or unknown do not count",
    ),
    pytest.param(
        [volume("a"), volume("b", size="50Gi", claim=MINE, storage_class="slow", phase="")],
        "b",
        {"a": Reason.OTHER_VOLUME_PREBOUND},
        id="the volume that names the claim, before a smaller one",
    ),
    pytest.param(
        [volume("a"), volume("b", claim=MINE, access_modes=[RWO, ROX])],
        "a",
        {"b": Reason.MORE_ACCESS_MODES_THAN_CHOSEN},
        id="the volume that names the claim loses to one with fewer modes",
    ),
    pytest.param(
        [volume("c", claim=MINE), volume("b", claim=MINE, size="90Gi")],
        "b",
        {"c": Reason.OTHER_VOLUME_PREBOUND},
        id="two name the claim: the first by name",
    ),
    pytest.param(
        [volume("a", claim="other/data"), volume("b", claim=ClaimReference())],
        None,
        {"a": Reason.CLAIMED_BY_OTHER, "b": Reason.CLAIMED_BY_OTHER},
        id="all claimed",
    ),
    pytest.param([volume("a", node="nowhere")], "a", {}, id="node affinity is not asked"),
]


@pytest.mark.parametrize(("volumes", "chosen", "rejected"), CHOICES)
def test_chooses(volumes: list[Volume], chosen: str | None, rejected: dict[str, Reason]) -> None:
    result = match(claim(), volumes)
    assert outcome(result, volumes) == (chosen, rejected)
    assert result.binding_mode == "Immediate"
    assert (result.reason is None) == (chosen is not None)


def test_a_claim_that_waits_gets_only_what_is_reserved_for_it() -> None:
    free, mine = volume("a"), volume("b", claim=MINE, access_modes=[RWO, ROX])
    waiting = match(claim(), [free], LATER)
    assert (waiting.reason, waiting.binding_mode) == (Reason.WAIT_FOR_FIRST_CONSUMER, "WaitForFirstConsumer")
    assert outcome(waiting, [free]) == (None, {"a": Reason.DELAYED_BINDING})
    assert outcome(match(claim(), [free, mine], LATER), [free, mine]) == ("b", {"a": Reason.DELAYED_BINDING})


def test_nothing_fits_and_a_provisioner_makes_one() -> None:
    assert match(claim(), []).reason == Reason.NO_VOLUME_FITS
    assert match(claim(storage_class=""), []).reason == Reason.NO_VOLUME_FITS
    dynamic = {"fast": storage_class(binding_mode="Immediate", provisioner="disk.csi.example")}
    assert match(claim(), [], dynamic).reason == Reason.DYNAMIC_CLASS


def test_a_class_without_binding_mode_is_an_error_for_the_claim() -> None:
    result = match(claim(), [volume("a", claim=MINE)], {"fast": storage_class(binding_mode=None)})
    assert outcome(result, [volume("a")]) == (None, {"a": Reason.BINDING_MODE_MISSING})
    assert (result.reason, result.binding_mode) == (Reason.BINDING_MODE_MISSING, None)


def test_a_selector_that_cannot_be_parsed_gets_nothing() -> None:
    wanted = claim(selector=LabelSelector((), (Requirement("disk", "Near", ("ssd",)),)))
    for classes in (NOW, LATER, {"fast": storage_class(provisioner="disk.csi.example")}):
        result = match(wanted, [volume("a", claim=MINE)], classes)
        assert outcome(result, [volume("a")]) == (None, {"a": Reason.SELECTOR_MISMATCH})
        assert result.reason == Reason.SELECTOR_MISMATCH


DEFAULT = {"std": storage_class("std", is_default=True)}


def test_a_claim_without_class_is_tried_on_volumes_without_class_first() -> None:
    plain, classy = volume("a", storage_class=None), volume("b", storage_class="std")
    assert outcome(match(claim(storage_class=None), [plain, classy], DEFAULT), [classy]) == (
        "a",
        {"b": Reason.CLASS_MISMATCH},
    )


def test_then_the_default_class_is_written_and_all_starts_over() -> None:
    classy, mine = volume("b", storage_class="std"), volume("c", storage_class="x", claim=MINE, access_modes=[RWO, ROX])
    waiting = match(claim(storage_class=None), [classy], DEFAULT)
    assert (waiting.claim.storage_class, waiting.binding_mode) == ("std", "WaitForFirstConsumer")
    assert outcome(waiting, [classy]) == (None, {"b": Reason.DELAYED_BINDING})
    assert outcome(match(claim(storage_class=None), [classy, mine], DEFAULT), [classy])[0] == "c"
    opted_out = match(claim(storage_class=""), [classy], DEFAULT)
    assert outcome(opted_out, [classy]) == (None, {"b": Reason.CLASS_MISMATCH})


def test_a_volume_requested_by_name() -> None:
    volumes = [volume("a"), volume("b", phase="Released")]
    assert outcome(match(claim(volume_name="b"), volumes), volumes) == ("b", {"a": Reason.OTHER_VOLUME_REQUESTED})
    small = match(claim(volume_name="b", size="20Gi"), volumes)
    assert small.reason == Reason.REQUESTED_VOLUME_MISMATCH
    assert outcome(small, volumes) == (None, {"a": Reason.OTHER_VOLUME_REQUESTED, "b": Reason.TOO_SMALL})
    missing = match(claim(volume_name="z"), volumes)
    assert missing.reason == Reason.REQUESTED_VOLUME_MISSING
    assert outcome(missing, volumes)[0] is None


BOUND = {BIND_COMPLETED: "yes"}
BINDS = [
    pytest.param(volume("a", claim=reference("default/data", "uid-default-data")), "a", id="bound"),
    pytest.param(volume("a"), "a", id="the volume lost its claimRef, and gets it back"),
    pytest.param(volume("a", claim=reference("default/data", "x")), None, id="the volume is another claim's"),
    pytest.param(volume("b"), None, id="the volume is gone"),
]


@pytest.mark.parametrize(("there", "bound_to"), BINDS)
def test_a_claim_whose_bind_was_completed(there: Volume, bound_to: str | None) -> None:
    result = match(claim(volume_name="a", annotations=BOUND), [there, volume("z")])
    assert outcome(result, [there, volume("z")]) == (bound_to, {})
    assert result.reason == (None if bound_to else Reason.CLAIM_LOST)
