import pytest

from kube.objects.model import PodClaim, Record
from kube.store.store import Store, snapshot_of
from tests import builders


def test_a_snapshot_is_the_same_object_until_something_changes() -> None:
    store = Store()
    store.volumes.upsert(builders.volume())
    before = store.snapshot()
    assert store.snapshot() is before
    store.volumes.upsert(builders.volume())
    assert store.snapshot() is before
    store.nodes.upsert(builders.node())
    assert store.snapshot() is not before
    assert not before.nodes


@pytest.mark.parametrize(
    ("records", "index", "entries"),
    [
        pytest.param(
            [builders.pod("b", claims=["data"]), builders.pod("a", claims=["data", "data", PodClaim("a-tmp", True)])],
            "pods_by_claim",
            {"default/data": ("default/a", "default/b"), "default/a-tmp": ("default/a",)},
            id="pods-by-claim",
        ),
        pytest.param(
            [builders.pod(claims=["data"], node="n1", phase="Succeeded")],
            "pods_by_claim",
            {},
            id="finished-pods-use-none",
        ),
        pytest.param(
            [builders.pod("a", node="n1"), builders.pod("b"), builders.pod("c", node="n1", phase="Failed")],
            "pods_by_node",
            {"n1": ("default/a",)},
            id="pods-by-node",
        ),
        pytest.param(
            [
                builders.pod("a", nominated_node="n1"),
                builders.pod("b", nominated_node="n1", node="n1"),
                builders.pod("c", nominated_node="n1", deleting=True),
                builders.pod("d"),
            ],
            "pods_by_nominated_node",
            {"n1": ("default/a",)},
            id="pods-by-nominated-node",
        ),
        pytest.param(
            [builders.volume("a", claim="default/data"), builders.volume("b", claim="data"), builders.volume("c")],
            "volumes_by_claim",
            {"default/data": ("a",), "/data": ("b",)},
            id="volumes-by-claim",
        ),
        pytest.param(
            [
                builders.volume("a", annotations={"scheduler.cloud.example/reserved-for": "default/data"}),
                builders.volume("b", annotations={"other.example/reserved-for": "default/data"}),
            ],
            "volumes_reserved_for",
            {"default/data": ("a",)},
            id="volumes-reserved-for",
        ),
        pytest.param(
            [builders.volume("a", annotations={"scheduler.cloud.example/set-aside-for": "default/data"})],
            "volumes_reserved_for",
            {"default/data": ("a",)},
            id="volumes-set-aside-for",
        ),
        pytest.param(
            [builders.claim("a", volume_name="pv"), builders.claim("b")],
            "claims_by_volume",
            {"pv": ("default/a",)},
            id="claims-by-volume",
        ),
        pytest.param(
            [builders.attachment("pv", "n1")],
            "attachments_by_node",
            {"n1": ("attachment-pv-n1",)},
            id="attachments-by-node",
        ),
    ],
)
def test_indexes(records: list[Record], index: str, entries: dict[str, tuple[str, ...]]) -> None:
    assert dict(getattr(snapshot_of(records), index)) == entries


def test_our_prefix_can_be_another() -> None:
    reserved = builders.volume("a", annotations={"storage.corp.example/reserved-for": "default/data"})
    assert dict(snapshot_of([reserved], "storage.corp.example/").volumes_reserved_for) == {"default/data": ("a",)}


def test_a_pod_that_finishes_leaves_the_indexes() -> None:
    store = Store()
    store.pods.upsert(builders.pod(claims=["data"], node="n1", phase="Running"))
    store.pods.upsert(builders.pod(claims=["data"], node="n1", phase="Succeeded", resource_version=2))
    snapshot = store.snapshot()
    assert not snapshot.pods_by_claim
    assert not snapshot.pods_by_node
    assert "default/web" in snapshot.pods
