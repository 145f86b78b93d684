"""Nodes, what CSI drivers registered on them, and namespaces, as records.

Neither needs a spec: a node without one is schedulable, a CSINode without one has no drivers.
"""

from collections.abc import Mapping

from kube.decoding import wire_compute
from kube.decoding.decode_health import storage_reports
from kube.decoding.decode_parts import amounts, identity, labels, present
from kube.decoding.interning import shared, text, texts
from kube.objects import model
from kube.rules.resource_fit import in_scheduler_units


def node(raw: wire_compute.Node) -> model.Node:
    who = identity(raw.metadata)
    metadata = present(raw.metadata, "$.metadata")
    spec, status = raw.spec or wire_compute.NodeSpec(), raw.status or wire_compute.NodeStatus()
    return model.Node(
        name=text(who.name),
        uid=who.uid,
        resource_version=who.resource_version,
        labels=labels(metadata),
        taints=shared(
            tuple(model.Taint(text(taint.key), text(taint.effect), text(taint.value)) for taint in spec.taints or ())
        ),
        unschedulable=bool(spec.unschedulable),
        allocatable=shared(in_scheduler_units(_offered(amounts(status.allocatable, "$.status.allocatable")))),
    )


def _offered(allocatable: Mapping[str, int]) -> Mapping[str, int]:
    """Leave out extended resources of which the node has none: the kubelet reports them so once their device plugin is
    gone, and kube-scheduler then looks for a DeviceClass (shouldDelegateResourceToDRA of plugins/noderesources).
    """
    return {name: amount for name, amount in allocatable.items() if amount or "/" not in name}


def namespace(raw: wire_compute.Namespace) -> model.Namespace:
    who = identity(raw.metadata)
    metadata = present(raw.metadata, "$.metadata")
    deleting = metadata.deletion_timestamp is not None
    return model.Namespace(text(who.name), who.uid, who.resource_version, labels(metadata), deleting)


def csi_node(raw: wire_compute.CSINode) -> model.CSINode:
    who = identity(raw.metadata)
    drivers = (raw.spec.drivers if raw.spec else None) or ()
    return model.CSINode(
        name=text(who.name),
        uid=who.uid,
        resource_version=who.resource_version,
        drivers=tuple(_driver(driver) for driver in drivers),
        storage=storage_reports(raw.status),
    )


def _driver(driver: wire_compute.NodeDriver) -> model.NodeDriver:
    return model.NodeDriver(
        name=text(driver.name),
        node_id=driver.node_id or "",
        topology_keys=texts(driver.topology_keys),
        attach_limit=driver.allocatable.count if driver.allocatable else None,
    )
