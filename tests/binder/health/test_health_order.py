from binder.health.health_order import health_order
from binder.reservation.contract import Annotations
from kube.objects.model import ClaimReference
from kube.store.store import snapshot_of
from tests.builders import claim, volume

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
