"""Assigns a pod to its node: the Binding subresource, as kube-scheduler's DefaultBinder does, conditional on the uid.

A response can be lost, and a Binding cannot be repeated: the second one fails because the pod is assigned already. Then
the pod itself shows whether the first one succeeded.
"""

from typing import Any, Final

from binder.matching.rejection import Reason, Rejection
from kube.client.api import KubeApi
from kube.decoding.decode import decode_pod_record
from kube.errors import Conflict, NotFound, Unavailable
from kube.objects.api_resource import PODS
from kube.objects.model import Pod
from scheduler.framework.plugin import ScheduleResult

TRIES: Final = 3
"""Bindings sent while responses are lost, before the attempt is given up."""


class BindPod:
    """The Bind plugin."""

    name: Final = "BindPod"

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        """Return None once the API server confirms that the pod is on the node, else why it cannot be assigned.

        Raises KubeError if the server fails. The pod may have been assigned all the same: the watch will show it.
        """
        pod, failure = placement.pod, None
        for _ in range(TRIES):
            try:
                body = binding(placement)
                await self._api.create(PODS, body, pod.namespace, name=pod.name, subresource="binding")
            except NotFound:
                return _gone(pod)
            except (Conflict, Unavailable) as error:
                failure = error
            else:
                return None
            seen = await self._read(pod)
            if seen is None or seen.uid != pod.uid:
                return _gone(pod)
            if seen.node_name == placement.node:
                return None
            if seen.node_name or isinstance(failure, Conflict):
                return _rejected(seen, failure)
        assert failure is not None
        raise failure

    async def _read(self, pod: Pod) -> Pod | None:
        try:
            return decode_pod_record(await self._api.get(PODS, pod.name, pod.namespace))
        except NotFound:
            return None


def binding(placement: ScheduleResult) -> dict[str, Any]:
    """Return the Binding. With the uid it cannot apply to another pod of that name."""
    pod = placement.pod
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
    }


def _gone(pod: Pod) -> Rejection:
    return Rejection(Reason.POD_ENDED, pod.key, "the pod that was scheduled", "deleted")


def _rejected(seen: Pod, failure: Conflict | Unavailable) -> Rejection:
    """Return why an existing pod is not assigned: another scheduler did, it is being deleted, or it is gated again."""
    if seen.node_name:
        return Rejection(Reason.ALREADY_ASSIGNED, seen.key, "an unassigned pod", f"bound to node {seen.node_name}")
    reason = Reason.POD_ENDED if seen.deleting else Reason.KEPT_CHANGING
    return Rejection(reason, seen.key, "a pod that can be bound", failure.message)
