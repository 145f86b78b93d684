"""What is derived from all objects once, for every answer."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kube.objects.model import PROVISIONED_BY
from tests.why.documents import DRIVER, NOW, at, facts_of, volume
from why.facts.facts import Source, Unread


def test_when_a_provisioner_made_its_last_volume() -> None:
    hours = {"old": (DRIVER, 48), "last": (DRIVER, 1), "older": (DRIVER, 72), "of another": ("disk.other", 2)}
    made = [
        volume(name, metadata={"annotations": {PROVISIONED_BY: by}, "creationTimestamp": at(timedelta(hours=ago))})
        for name, (by, ago) in hours.items()
    ]
    facts = facts_of(*made, volume("static"))
    expected = {DRIVER: NOW - timedelta(hours=1), "disk.other": NOW - timedelta(hours=2)}
    assert facts.derived.last_provisioned == expected


def test_a_source_was_read_or_may_not_be_or_is_still_to_be_read() -> None:
    facts = facts_of(without=[Source.VOLUMES])
    assert facts.has(Source.CLAIMS)
    assert not facts.has(Source.VOLUMES)
    unread = replace(facts, read=frozenset())
    with pytest.raises(Unread):
        unread.has(Source.CLAIMS)
    assert {Source.CLAIMS, Source.VOLUMES} <= facts.used
