"""Whether an autoscaler runs in a cluster, and whether the StorageClasses let it add nodes for their volumes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from binder.model.decision import Mode
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import NODE_POOLS, Resource
from kube.objects.model import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, StorageClass, value_of
from prebinder.preflight.doctor_checks import Check, CheckState

_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
_STATUS: Final = "cluster-autoscaler-status"
"""Where Cluster Autoscaler reports, in kube-system."""


async def autoscalers_in(api: KubeApi) -> list[str]:
    """Return the autoscalers that left a trace: the kinds of Karpenter, the report of Cluster Autoscaler."""
    names: list[str] = []
    try:
        await api.list_page(NODE_POOLS, limit=1)
        names.append("Karpenter")
    except (NotFound, Forbidden):
        pass
    try:
        await api.get(_CONFIG_MAPS, _STATUS, "kube-system")
        names.append("Cluster Autoscaler")
    except (NotFound, Forbidden):
        pass
    return names


def check_autoscalers(
    names: Sequence[str], classes: Iterable[StorageClass], annotations: Annotations
) -> Iterator[Check]:
    """Check whether nodes are added where the controller decides; nothing without an autoscaler or such a class."""
    handled = [each for each in classes if each.binding_mode == WAIT_FOR_FIRST_CONSUMER and _is_ours(each, annotations)]
    if not names or not handled:
        return
    subject, by = "autoscaler", " and ".join(names)
    left = sorted(each.name for each in handled if not annotations.joins_new_nodes(each))
    if not left:
        yield Check(subject, CheckState.OK, by, "nodes are added where volumes are")
        return
    meaning = (
        f"no node is added for the volumes of {', '.join(left)}, and pods with the scheduling gate wait for ever where "
        f"nodes are missing: see docs/autoscalers.md on the annotation {annotations.new_nodes}"
    )
    yield Check(subject, CheckState.NOTE, by, meaning)


def _is_ours(storage_class: StorageClass, annotations: Annotations) -> bool:
    """Whether the controller decides for claims of the class: in mode provision if it provisions volumes."""
    mode = value_of(storage_class.annotations, annotations.mode)
    return mode == Mode.PROVISION if storage_class.provisioner != NO_PROVISIONER else mode != Mode.OFF
