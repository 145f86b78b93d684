"""Whatever may not be read: the answer is the same, another true problem, or inconclusive, and never "all is well"."""

from collections.abc import Iterator

import pytest

from binder.matching.rejection import Reason
from tests.why.causes import test_claims, test_hidden_causes, test_pods, test_reported
from tests.why.documents import (
    DRIVER,
    SCHEDULED,
    Document,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source


def cases() -> Iterator[object]:
    for target, table in (
        ("pod/db-0", [*test_pods.CASES, *test_hidden_causes.OF_PODS]),
        ("pvc/data", [*test_claims.CASES, *test_reported.CASES, *test_claims.NORMAL, *test_hidden_causes.OF_CLAIMS]),
    ):
        for case in table:
            yield pytest.param(target, case.values[1], id=f"{target}: {case.id}")


def known_by_the_claims_word_alone(item_code: Reason, source: Source) -> bool:
    """A claim that says that it is bound is believed where volumes may not be read."""
    return item_code is Reason.CLAIM_LOST and source is Source.VOLUMES


@pytest.mark.parametrize(("target", "documents"), [*cases()])
def test_without_a_source_nothing_is_guessed(target: str, documents: list[Document]) -> None:
    whole = why(target, *documents)
    for source in Source:
        item = why(target, *documents, without=[source])
        if whole.problem and not known_by_the_claims_word_alone(whole.code, source):
            assert item.problem or item.code is Reason.INCONCLUSIVE, (source, item)
        if not whole.problem:
            assert not item.problem, (source, item)
        if item.code is not whole.code:
            assert source in {skipped.resource for skipped in item.skipped}, item


HAS_TO_BE_THERE = [
    pod("db-0", "data"),
    claim(volume="pv-1"),
    volume(claim="data"),
    storage_class(),
    node("a1"),
    driver(preventPodSchedulingIfMissing=True),
    csi_node("a1"),
    SCHEDULED,
]
NOT_ASKED = [
    pod("db-0", "data", cpu="99"),
    claim(),
    storage_class(provisioner="rancher.io/local-path"),
    node("a1"),
    csi_node("a1", DRIVER),
    event("Pod", "another", "Scheduled", "assigned", type="Normal"),
    SCHEDULED,
]
"""Of a provisioner without CSI that no node's choice has asked for a volume."""


@pytest.mark.parametrize(
    ("documents", "code", "source"),
    [
        (HAS_TO_BE_THERE, Reason.DRIVER_NOT_ON_NODE, Source.CSI_NODES),
        (NOT_ASKED, Reason.NO_NODE_FITS, Source.NODES),
    ],
    ids=["a driver is not on a node", "nothing else keeps the pod from a node"],
)
def test_what_is_missing_is_not_concluded_from_what_was_not_read(
    documents: list[Document], code: Reason, source: Source
) -> None:
    assert why("pod/db-0", *documents).code is code
    assert why("pod/db-0", *documents, without=[source]).code is Reason.INCONCLUSIVE
