"""What is derived from all objects once, for every answer."""

from datetime import timedelta

from kube.objects.model import PROVISIONED_BY
from tests.why.documents import DRIVER, NOW, at, facts_of, volume


def test_when_a_provisioner_made_its_last_volume() -> None:
    hours = {"old": (DRIVER, 48), "last": (DRIVER, 1), "older": (DRIVER, 72), "of another": ("disk.other", 2)}
    made = [
        volume(name, metadata={"annotations": {PROVISIONED_BY: by}, "creationTimestamp": at(timedelta(hours=ago))})
        for name, (by, ago) in hours.items()
    ]
    facts = facts_of(*made, volume("static"))
    expected = {DRIVER: NOW - timedelta(hours=1), "disk.other": NOW - timedelta(hours=2)}
    assert facts.derived.last_provisioned == expected
