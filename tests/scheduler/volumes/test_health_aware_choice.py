"""Which volumes we take on a node, where kube-scheduler takes the smallest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from kube.objects.reports import StorageCondition
from scheduler.volumes.volume_binding import VolumeChoice, choose_volumes
from scheduler.volumes.volumes import NodeVolumes, pod_info
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.plugins.test_reservation import UNHEALTHY, promise, reserved

NODE, CLASS = builders.node("a1", zone="a"), builders.storage_class()


def chosen(claims: list[str], *records: model.Record) -> VolumeChoice:
    cluster = view(NODE, CLASS, *records)
    info = pod_info(builders.pod("new", claims=claims), cluster.storage, cluster.now)
    assert info.rejection is None
    return info.choice(cluster.nodes[0]).own


@pytest.mark.parametrize(
    ("records", "taken"),
    [
        pytest.param([builders.volume("large", size="20Gi"), builders.volume("small")], "small", id="smallest"),
        pytest.param(
            [builders.volume("small", annotations=UNHEALTHY), builders.volume("large", size="20Gi")],
            "large",
            id="not-unhealthy",
        ),
        pytest.param(
            [builders.volume("small", annotations=promise("other")), builders.volume("large", size="20Gi")],
            "large",
            id="not-held-for-another",
        ),
        pytest.param(
            [builders.volume("named", size="30Gi", claim="default/data"), builders.volume("small")],
            "named",
            id="one-that-names-the-claim",
        ),
    ],
)
def test_one_claim(records: list[model.Record], taken: str) -> None:
    assert [volume.name for _, volume in chosen(["data"], builders.claim("data"), *records).volumes] == [taken]


def test_the_reserved_volume_comes_before_a_smaller_one() -> None:
    held = builders.volume("held", size="30Gi", annotations=promise("data"))
    choice = chosen(["data"], reserved("held"), held, builders.volume("small"))
    assert [volume.name for _, volume in choice.volumes] == ["held"]


CUT_OFF = builders.csi_node("a1", reports=[StorageCondition("disk.csi.example", "StorageUnreachable")])


def test_a_volume_of_another_driver_is_taken_where_one_is_cut_off() -> None:
    other = builders.volume("large", size="20Gi", driver="other.csi.example")
    choice = chosen(["data"], builders.claim("data"), builders.volume("small"), other, CUT_OFF, builders.node("a2"))
    assert [volume.name for _, volume in choice.volumes] == ["large"]


def test_where_the_reserved_volume_is_cut_off_no_other_is_taken() -> None:
    """Another node may reach it."""
    held = builders.volume("held", annotations=promise("data"))
    other = builders.volume("other", size="20Gi", driver="other.csi.example")
    choice = chosen(["data"], reserved("held"), held, other, CUT_OFF, builders.node("a2"))
    assert [rejection.reason for rejection in choice.rejections] == [Reason.STORAGE_UNREACHABLE]


@pytest.mark.parametrize(("selected", "reason"), [("a1", None), ("a2", Reason.PROVISIONING_ELSEWHERE)])
def test_a_volume_that_is_being_made_for_another_node_is_not_made_for_this_one(
    selected: str, reason: Reason | None
) -> None:
    made = builders.storage_class("made", provisioner="disk.csi.example")
    claim = builders.claim("data", storage_class="made", annotations={model.SELECTED_NODE: selected})
    choice = chosen(["data"], claim, made, builders.node("a2"))
    assert [rejection.reason for rejection in choice.rejections] == ([] if reason is None else [reason])


def test_rejections_of_needed_volumes_come_with_those_of_bound_ones() -> None:
    own, unbound = (Rejection(Reason.NO_VOLUME_FITS, name, "a volume", "none") for name in ("own", "unbound"))

    def has(rejections: tuple[Rejection, ...]) -> NodeVolumes:
        return NodeVolumes(
            VolumeChoice(rejections=rejections), VolumeChoice, lambda: VolumeChoice(rejections=(unbound,))
        )

    assert has((own,)).rejections == (own, unbound)
    assert has(()).rejections == ()


def test_claims_are_decided_together() -> None:
    """Smallest first would give the only volume of two modes to the claim that needs one of them."""
    both = builders.volume("both", access_modes=["ReadWriteOnce", "ReadWriteMany"])
    single = builders.volume("single", size="20Gi")
    small = builders.claim("small", size="5Gi")
    wide = builders.claim("wide", access_modes=["ReadWriteMany"])
    choice = chosen(["small", "wide"], small, wide, both, single)
    assert {claim.name: volume.name for claim, volume in choice.volumes} == {"small": "single", "wide": "both"}


def test_a_volume_is_made_for_what_finds_none() -> None:
    made = builders.storage_class("made", provisioner="disk.csi.example")
    dynamic = builders.claim("dynamic", storage_class="made")
    choice = chosen(["data", "dynamic"], builders.claim("data"), dynamic, made, builders.volume())
    assert [claim.name for claim in choice.provision] == ["dynamic"]
    assert [claim.name for claim, _ in choice.volumes] == ["data"]


def test_two_claims_and_one_volume() -> None:
    choice = chosen(["data", "more"], builders.claim("data"), builders.claim("more"), builders.volume())
    assert [rejection.reason for rejection in choice.rejections] == [Reason.NO_JOINT_ASSIGNMENT]


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("a", "b", None))), max_size=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_where_nothing_is_reserved_or_unhealthy_we_take_no_more_than_kube_scheduler(
    volumes: list[tuple[int, str | None]], requests: list[int]
) -> None:
    """And wherever it finds volumes for all claims, so do we."""
    claims = [builders.claim(f"c{place}", size=f"{size}Gi") for place, size in enumerate(requests)]
    free = [builders.volume(f"v{place}", size=f"{size}Gi", zone=zone) for place, (size, zone) in enumerate(volumes)]
    cluster = view(NODE, CLASS, *claims, *free)
    info = pod_info(builders.pod("new", claims=[claim.name for claim in claims]), cluster.storage, cluster.now)
    both = info.choice(cluster.nodes[0])
    if not both.upstream.rejections:
        assert not both.own.rejections
        assert total(both.own) <= total(both.upstream)
        assert len({volume.name for _, volume in both.own.volumes}) == len(claims)


def total(choice: VolumeChoice) -> int:
    return sum(volume.capacity for _, volume in choice.volumes)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("a", "b", None)), st.booleans()), max_size=5),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("local", "made"))), min_size=1, max_size=4),
    st.booleans(),
)
def test_the_quick_answer_rejects_what_kube_scheduler_rejects(
    volumes: list[tuple[int, str | None, bool]], requests: list[tuple[int, str]], again: bool
) -> None:
    """Among unhealthy volumes, with claims that have volumes made for them, and with a claim that a pod names twice."""
    claims = [
        builders.claim(f"c{place}", size=f"{size}Gi", storage_class=name) for place, (size, name) in enumerate(requests)
    ]
    free = [
        builders.volume(
            f"v{place}",
            size=f"{size}Gi",
            zone=zone,
            storage_class="local",
            annotations=UNHEALTHY if unhealthy else None,
        )
        for place, (size, zone, unhealthy) in enumerate(volumes)
    ]
    classes = [builders.storage_class("local"), builders.storage_class("made", provisioner="disk.csi.example")]
    cluster = view(NODE, *classes, *claims, *free)
    names = [claim.name for claim in claims]
    info = pod_info(builders.pod("new", claims=[*names, *names[:again]]), cluster.storage, cluster.now)
    expected = choose_volumes(info.claims, NODE, cluster.storage.snapshot, cluster.storage.index)
    upstream = info.choice(cluster.nodes[0]).upstream
    assert bool(upstream.rejections) == bool(expected.rejections)
    assert (upstream.volumes, upstream.provision) == (expected.volumes, expected.provision)


def test_kube_schedulers_choice_is_not_computed_where_there_are_too_few_volumes() -> None:
    """A pod with dozens of claims would have each looked at on each node of the cluster once more."""
    claims = [builders.claim(f"c{place}") for place in range(64)]
    cluster = view(NODE, CLASS, *claims, builders.volume())
    info = pod_info(builders.pod("new", claims=[claim.name for claim in claims]), cluster.storage, cluster.now)
    choice = info.choice(cluster.nodes[0])
    assert choice.upstream is choice.own
