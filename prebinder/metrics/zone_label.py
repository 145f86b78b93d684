"""The label `zone`: annotations, selectors and volumes may name any zone, and only those of nodes are named here."""

from binder.reporting.metrics import OTHER
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot


class ZoneLabel:
    """Bounds the label to the zones in which there are nodes now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._zones = {"", *(zone_of(node.labels) for node in snapshot.nodes.values())}

    def of(self, zone: str) -> str:
        """Return the label's value for a zone; empty for none."""
        return zone if zone in self._zones else OTHER
