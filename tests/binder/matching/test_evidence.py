"""Rejections in words: what was wanted, what was found."""

import pytest

from binder.matching.controller_match import match_as_controller
from binder.matching.evidence import RejectionEvidence, affinity_text, selector_text
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import match_as_scheduler
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import SELECTED_NODE, Claim, Volume
from tests.builders import claim, node, node_selector, reference, storage_class, volume

NOW = {"fast": storage_class(binding_mode="Immediate")}
CHOSEN = volume("z", size="12Gi")
SELECTOR = LabelSelector((("tier", "gold"),), (Requirement("disk", "NotIn", ("hdd",)),))

SAID = [
    pytest.param(claim(), volume(size="1G"), "at least 10Gi", "1G", id="size"),
    pytest.param(claim(), volume(claim="a/b"), "no claimRef, or default/data", "claimRef a/b", id="claimed"),
    pytest.param(
        claim(), volume(claim="b"), "no claimRef, or default/data", "claimRef (no namespace)/b", id="of no claim"
    ),
    pytest.param(
        claim(uid="1"),
        volume(claim=reference("default/data", "2")),
        "no claimRef, or one with uid 1",
        "claimRef default/data with uid 2",
        id="another uid",
    ),
    pytest.param(claim(), volume(volume_mode="Block"), "Filesystem", "Block", id="volume mode"),
    pytest.param(claim(), volume(attributes_class="gold"), "none", "gold", id="attributes class"),
    pytest.param(claim(), volume(storage_class=None), "fast", "no class", id="class"),
    pytest.param(claim(), volume(deleting=True), "a volume not being deleted", "being deleted", id="deleting"),
    pytest.param(claim(), volume(phase=""), "phase Available", "no phase", id="no phase"),
    pytest.param(claim(), volume(phase="Failed"), "phase Available", "phase Failed", id="phase"),
    pytest.param(
        claim(selector=SELECTOR),
        volume(labels={"disk": "hdd", "x": "y"}),
        "tier=gold, disk not in (hdd)",
        "no tier, disk=hdd",
        id="selector",
    ),
    pytest.param(
        claim(access_modes=["ReadOnlyMany"]),
        volume(access_modes=[]),
        "ReadOnlyMany",
        "no access modes",
        id="access modes",
    ),
    pytest.param(claim(), volume(size="20Gi"), "12Gi (z)", "20Gi", id="larger"),
    pytest.param(claim(), volume("zz", size="12Gi"), "z, first by name among equals", "zz", id="tied"),
    pytest.param(
        claim(),
        volume(access_modes=["ReadWriteOnce", "ReadOnlyMany"]),
        "ReadWriteOnce (z)",
        "ReadWriteOnce, ReadOnlyMany",
        id="more access modes",
    ),
    pytest.param(claim(volume_name="z"), volume("a"), "z (spec.volumeName)", "a", id="another one was asked for"),
]


@pytest.mark.parametrize(("wanted", "rejected", "want", "offered"), SAID)
def test_says(wanted: Claim, rejected: Volume, want: str, offered: str) -> None:
    match = match_as_controller(wanted, NOW, {"z": CHOSEN, rejected.name: rejected})
    [rejection] = match.rejections([rejected])
    assert (rejection.subject, rejection.wanted, rejection.offered) == (rejected.name, want, offered)


def test_says_what_the_node_lacks() -> None:
    match = match_as_scheduler(claim(), node("n", zone="a"), {}, {})
    [rejection] = match.rejections([volume(zone="b", node="m")])
    assert rejection.wanted == "accessible from node n (topology.kubernetes.io/zone=a, kubernetes.io/hostname=n)"
    expected = "accessible where topology.kubernetes.io/zone in (b) and kubernetes.io/hostname in (m)"
    assert rejection.offered == expected


def test_reports_why_nothing_was_evaluated() -> None:
    waiting = match_as_controller(claim(), {"fast": storage_class()}, {})
    unset = match_as_controller(claim(), {"fast": storage_class(binding_mode=None)}, {})
    ordered = match_as_scheduler(claim(annotations={SELECTED_NODE: "n2"}), node("n"), {"fast": storage_class()}, {})
    unparsable = match_as_controller(claim(selector=LabelSelector((), (Requirement("d", "Near", ()),))), NOW, {})
    rejections = [next(match.rejections([volume()])) for match in (waiting, unset, ordered, unparsable)]
    assert [rejection.wanted for rejection in rejections] == [
        "a volume with claimRef default/data, until a pod uses the claim",
        "volumeBindingMode in StorageClass fast",
        "a new volume, already being provisioned for node n2",
        "a valid selector",
    ]
    assert rejections[-1].offered.startswith("'Near' is not an operator")


def test_every_reason_a_match_can_give_has_words() -> None:
    about_volumes = list(Reason)[: list(Reason).index(Reason.RESERVED_FOR_OTHER)]
    rejections = [
        RejectionEvidence(claim(volume_name="z"), CHOSEN, node(), {}).rejection(volume(), reason)
        for reason in about_volumes
    ]
    assert all(rejection.wanted and rejection.offered for rejection in rejections)


AFFINITIES = [
    pytest.param(
        node_selector({"a": ["1", "2"], "b": "3"}, {"c": "4"}), "a in (1, 2) and b in (3) or c in (4)", id="In"
    ),
    pytest.param(
        NodeSelector((NodeSelectorTerm((Requirement("n", "Gt", ("3",)), Requirement("m", "Exists"))),)),
        "n > 3 and m exists",
        id="other operators",
    ),
    pytest.param(
        NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", "In", ("x",)),)),)),
        "metadata.name in (x)",
        id="fields",
    ),
    pytest.param(node_selector({}), "an empty term (nowhere)", id="an empty term"),
    pytest.param(NodeSelector(), "no terms (nowhere)", id="no terms"),
]


@pytest.mark.parametrize(("affinity", "text"), AFFINITIES)
def test_affinities(affinity: NodeSelector, text: str) -> None:
    assert affinity_text(affinity) == text


def test_selectors() -> None:
    assert selector_text(LabelSelector()) == "any labels"
    assert selector_text(LabelSelector((), (Requirement("a", "DoesNotExist"),))) == "a is absent"


def test_a_text_lists_no_more_than_sixteen_of_anything() -> None:
    values = tuple(f"n{number}" for number in range(5000))
    many = NodeSelector((NodeSelectorTerm((Requirement("host", "In", values),)),))
    assert affinity_text(many) == f"host in ({', '.join(values[:16])}, 4,984 more)"
    absences = tuple(Requirement(f"k{number}", "DoesNotExist") for number in range(17))
    assert selector_text(LabelSelector((), absences)).endswith(", k15 is absent, 1 more")
    terms = tuple(NodeSelectorTerm((Requirement(f"k{number}", "Exists"),)) for number in range(18))
    assert affinity_text(NodeSelector(terms)).endswith(" or k15 exists or 2 more")
