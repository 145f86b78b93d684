import pytest

from binder.matching.rejection import Reason
from kube.objects.model import PodClaim
from kube.store.store import snapshot_of
from scheduler.volumes.volume_zone import zone_rejection, zoned_volumes
from tests import builders as made


@pytest.mark.parametrize(
    ("zone", "node_zone", "fits"),
    [("a", "a", True), ("a", "b", False), ("a__b", "b", True), ("a", None, True), (None, "b", True)],
)
def test_a_node_must_be_in_a_zone_the_volume_names(zone: str | None, node_zone: str | None, *, fits: bool) -> None:
    volume = made.volume(labels={made.ZONE: zone} if zone else None)
    rejected = zone_rejection([volume], made.node(zone=node_zone))
    assert (rejected is None) is fits
    assert rejected is None or rejected.reason is Reason.VOLUME_ZONE_MISMATCH


def test_ephemeral_and_unlabelled_volumes_are_skipped() -> None:
    labels = {made.ZONE: "a"}
    pod = made.pod(claims=["a", "plain", "absent", PodClaim("web-x", ephemeral=True)])
    snapshot = snapshot_of(
        [
            *(made.claim(name, volume_name=f"pv-{name}") for name in ("a", "plain", "web-x")),
            *(made.volume(f"pv-{name}", labels=labels) for name in ("a", "web-x")),
            made.volume("pv-plain"),
        ]
    )
    assert [volume.name for volume in zoned_volumes(pod, snapshot)] == ["pv-a"]
