"""What is remembered by a claim's shape holds for every claim of it: no rule reads a field that the shape lacks."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from binder.matching.claim_shape import family_of, shape_of
from binder.matching.index import VolumeIndex
from binder.matching.matching import controller_rejection, scheduler_rejection
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim, Volume
from kube.objects.reports import ClaimHealth
from tests.binder.matching.test_index import NODES, SELECTORS, claims, volumes
from tests.builders import EPOCH

MALFORMED = LabelSelector((), (Requirement("tier", "Near", ("gold",)),))

OTHERS: dict[str, list[Any]] = {
    "namespace": ["default", "shop"],
    "name": ["data", "logs"],
    "uid": ["", "uid-2"],
    "resource_version": [1, 2],
    "storage_class": ["fast", "slow", "", None],
    "request": [0, 2 * 2**30 * 10**9, 4 * 2**30 * 10**9],
    "access_modes": [(), ("ReadWriteOnce",), ("ReadOnlyMany",), ("ReadWriteOnce", "ReadOnlyMany")],
    "volume_mode": ["Filesystem", "Block"],
    "selector": [*SELECTORS, MALFORMED],
    "attributes_class": ["", "gold"],
    "volume_name": ["", "pv-1"],
    "owner": ["", "uid-pod"],
    "phase": ["Pending", "Bound", "Lost"],
    "deleting": [False, True],
    "created": [None, EPOCH],
    "annotations": [(), ((BIND_COMPLETED, "yes"),), ((SELECTED_NODE, "n1"),)],
    "has_data_source": [False, True],
    "clone_of": ["", "original"],
    "snapshot": ["", "snapshot"],
    "health": [None, ClaimHealth()],
}
"""Field of a claim -> values to try. A field that is missing here is new: say what it may hold."""


def matches(claim: Claim, volumes: list[Volume], index: VolumeIndex) -> list[object]:
    """Return everything that the rules answer about these volumes, which the index holds, for the claim."""
    answers: list[object] = [controller_rejection(claim, volume, delayed=False) for volume in volumes]
    for labels in NODES:
        answers += [scheduler_rejection(claim, volume, labels) for volume in volumes]
        answers += [index.smallest(claim, labels), list(index.candidates(claim, labels))]
    return [*answers, list(index.topologies(claim)), index.by_topology(claim), index.deciding_labels(claim)]


@pytest.mark.parametrize("field", Claim.__struct_fields__)
@settings(max_examples=50)
@given(data=st.data(), claim=claims, volumes=st.lists(volumes, max_size=6, unique_by=lambda volume: volume.name))
def test_claims_of_one_shape_get_the_same_answers(
    field: str, data: st.DataObject, claim: Claim, volumes: list[Volume]
) -> None:
    other = replace(claim, **{field: data.draw(st.sampled_from(OTHERS[field]))})
    unclaimed = [volume for volume in volumes if volume.claim is None]
    if shape_of(claim) == shape_of(other):
        assert hash(shape_of(claim)) == hash(shape_of(other))
        index = VolumeIndex.of(unclaimed)
        assert matches(claim, unclaimed, index) == matches(other, unclaimed, index)
    assert (family_of(claim) == family_of(other)) == (
        shape_of(claim) == shape_of(replace(other, request=claim.request))
    )


@given(claim=claims)
def test_a_pinned_claim_has_a_shape_of_its_own(claim: Claim) -> None:
    assert shape_of(claim, "pv-1") != shape_of(claim)
    assert family_of(claim, "pv-1") != family_of(claim)
