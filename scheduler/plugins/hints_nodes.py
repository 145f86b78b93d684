"""Which changes may help a pod that was refused for what a node is or has left.

Each rule looks at one object before and after, so that whatever turns a refusal round is seen at the step that does.
Sources: the isSchedulableAfter... functions (KEP-4247) of plugins/nodeunschedulable, tainttoleration, nodeaffinity,
noderesources/fit.go and nodeports.
"""

from collections.abc import Callable

from kube.objects.model import Node, Pod
from kube.rules.disk_conflicts import disks_of
from kube.rules.host_ports import host_ports
from kube.rules.resource_fit import PODS, has_room
from kube.rules.selectors import pod_node_affinity_matches
from kube.rules.taints import untolerated_taint
from kube.store.node_view import effective_taints
from scheduler.framework.cluster_event import Change, Wanted


def now_tolerated(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A node has only taints that the pod tolerates, and had others."""
    return _turned(change, lambda node: untolerated_taint(effective_taints(node), pod.tolerations) is None)


def now_selected(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A node has the labels that the pod asks for, and had not."""
    return _turned(change, lambda node: _selects(pod, node))


def labels_changed(_: Pod, change: Change, __: Wanted | None) -> bool:
    """A node has other labels, whatever the profile asks of them."""
    if not isinstance(change.new, Node):
        return False
    return not isinstance(change.old, Node) or change.old.labels != change.new.labels


def disk_released(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A pod left that used a disk of this one, or there is a new node."""
    if isinstance(change.new, Node):
        return change.old is None
    if not isinstance(change.old, Pod) or change.new is not None:
        return False
    released = disks_of(change.old)
    return any(disk.excludes(other) for disk in disks_of(pod) for other in released)


def more_room(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A pod left, or requests less of what this one requests, or a node that is large enough grew in that."""
    if isinstance(change.new, Node):
        return _grew(pod, change.old, change.new) and _large_enough(pod, change.new)
    if not isinstance(change.old, Pod):
        return False
    # Whoever leaves makes room for one pod more.
    return not isinstance(change.new, Pod) or _requests_less(pod, change.old, change.new)


def port_freed(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A pod left that had one of the ports, on whatever address, or there is a new node."""
    if isinstance(change.new, Node):
        return change.old is None
    if not isinstance(change.old, Pod) or change.new is not None:
        return False
    freed = {(port.protocol, port.port) for port in host_ports(change.old)}
    return bool(freed) and any((port.protocol, port.port) in freed for port in host_ports(pod))


def _turned(change: Change, allows: Callable[[Node], bool]) -> bool:
    if not isinstance(change.new, Node) or not allows(change.new):
        return False
    return not isinstance(change.old, Node) or not allows(change.old)


def _selects(pod: Pod, node: Node) -> bool:
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in pod.node_selector):
        return False
    return pod_node_affinity_matches(pod.node_affinity, labels, node.name)


def _large_enough(pod: Pod, node: Node) -> bool:
    return has_room(dict(node.allocatable), pod.requests)


def _grew(pod: Pod, old: object, new: Node) -> bool:
    if not isinstance(old, Node):
        return True
    if old.allocatable == new.allocatable:
        return False
    before, after = dict(old.allocatable), dict(new.allocatable)
    counted = (PODS, *(name for name, amount in pod.requests if amount > 0))
    return any(after.get(name, 0) > before.get(name, 0) for name in counted)


def _requests_less(pod: Pod, old: Pod, new: Pod) -> bool:
    if old.requests == new.requests:
        return False
    after = dict(new.requests)
    counted = {name for name, amount in pod.requests if amount > 0}
    return any(amount > after.get(name, 0) for name, amount in old.requests if name in counted)
