import pytest

from binder.health.health_order import health_order, in_use
from binder.reservation.contract import Annotations
from kube.objects.model import ClaimReference
from kube.store.store import snapshot_of
from tests.builders import claim, pod, volume

PREFIX = "scheduler.cloud.example/"


def test_volumes_come_by_how_near_a_decision_is() -> None:
    volumes = [
        volume("bound", source="csi", storage_class="fast", phase="Bound"),
        volume("prebound", source="csi", storage_class="fast", claim=ClaimReference("default", "data")),
        volume("reserved", source="csi", storage_class="fast", annotations={f"{PREFIX}reserved-for": "default/x"}),
        volume("other-class", source="csi", storage_class="slow"),
        volume("wanted-2", source="csi", storage_class="fast"),
        volume("wanted-1", source="csi", storage_class="fast"),
        volume("local", source="local", storage_class="fast"),
    ]
    snapshot = snapshot_of([*volumes, claim("data", storage_class="fast")])
    driver = volumes[0].driver
    assert health_order(snapshot, driver, Annotations()) == [
        f"handle-{name}" for name in ("wanted-1", "wanted-2", "other-class", "prebound", "reserved", "bound")
    ]
    assert health_order(snapshot, "another.csi.example", Annotations()) == []


@pytest.mark.parametrize(
    ("sees_pods", "expected"),
    [
        pytest.param(True, (["bound-new", "half", "reserved"], ["running"]), id="by its pods"),
        pytest.param(False, (["reserved"], ["bound-new", "finished", "half", "running", "unused"]), id="by its claim"),
    ],
)
def test_volumes_in_use_are_those_that_pods_wait_for_and_those_of_running_pods(
    sees_pods: bool, expected: tuple[list[str], list[str]]
) -> None:
    names = ("running", "half", "bound-new", "unused", "finished")
    volumes = [
        *(volume(name, source="csi", phase="Bound", claim=ClaimReference("default", name)) for name in names),
        volume("reserved", source="csi", annotations={f"{PREFIX}reserved-for": "default/reserved"}),
        volume("free", source="csi"),
        volume("local", source="local", phase="Bound", claim=ClaimReference("default", "running")),
    ]
    pods = [
        pod("p1", claims=["running"], node="n", phase="Running"),
        pod("p2", claims=["running", "half"], node="n", phase="Running"),
        pod("p3", claims=["half"], node="n"),
        pod("p4", claims=["bound-new"]),
        pod("p5", claims=["finished"], node="n", phase="Succeeded"),
        pod("p6", claims=["reserved"]),
    ]
    snapshot = snapshot_of([*volumes, *pods])
    waited_for, used = in_use(snapshot, volumes[0].driver, Annotations(), sees_pods=sees_pods)
    assert (sorted(waited_for), sorted(used)) == tuple([f"handle-{name}" for name in group] for group in expected)
    assert in_use(snapshot, "another.csi.example", Annotations(), sees_pods=sees_pods) == ([], [])
