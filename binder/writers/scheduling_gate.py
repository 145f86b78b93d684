"""Lifts our scheduling gate off a pod, so that kube-scheduler looks at it only when its volumes are held (KEP-3521).

Volumes are committed for pods that carry the gate, and nobody races kube-scheduler for the others
(binder.planning.commitment). Who wants the guarantee writes the gate into the pod; only the gate of that name is ever
removed, and nothing else of a pod.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from binder.reservation.contract import Annotations
from binder.writers.object_client import FASTER, ObjectApi, patch_as_seen
from kube.decoding.decode import decode_pod_record
from kube.errors import Forbidden, TerminalError
from kube.objects.api_resource import PODS
from kube.objects.model import Claim, Pod
from kube.store.store import Store

logger = logging.getLogger(__name__)


class Complaint(Protocol):
    """Tells people that a gate could not be lifted (binder.reporting.announce.Announcer)."""

    def gate_kept(self, pod: Pod, gate: str) -> None:
        """We may not remove it."""

    def write_rejected(self, pod: Pod, why: str) -> None:
        """The API server does not accept the removal; `why` is its message."""


class Claims(Protocol):
    """Claims as the API server has them (binder.writers.object_client.LiveObjects)."""

    async def claim(self, key: str) -> Claim | None:
        """Read a claim, and have the store know it; None when it is gone."""


class PodGate:
    """Lifts gates by a fenced API. `turns` are shared with all who write for pods: so many at a time."""

    def __init__(
        self,
        api: ObjectApi,
        claims: Claims,
        store: Store,
        annotations: Annotations,
        complaint: Complaint,
        *,
        turns: asyncio.Semaphore,
    ) -> None:
        self._api = api
        self._claims = claims
        self._turns = turns
        self._store = store
        self._annotations = annotations
        self._complaint = complaint

    async def lift(self, pod: Pod, unread: Mapping[str, str]) -> bool:
        """Remove our gate if the pod carries it; False if it is still there and has to be tried again.

        `unread` are those of its claims that are known from a watch only: their keys, and the uids that were decided
        with. They are read first: the watches of pods and of claims do not keep pace, and a pod made anew may be seen
        beside its predecessor's bound claim. While a claim is being deleted kube-scheduler would not take the pod, and
        one made anew since the decision may have no volume yet.

        Raises KubeError when the API server fails us or refuses for another reason than a missing right.
        """
        if not self._annotations.carries_gate(pod):
            return True
        async with self._turns:
            # As it is by now: it may have changed while it waited for its turn.
            seen = self._store.pods.items.get(pod.key)
            if seen is None or seen.uid != pod.uid or not self._annotations.carries_gate(seen):
                return True
            return await self._stand(unread) and await self._remove(seen)

    async def _remove(self, pod: Pod) -> bool:
        left = [{"name": gate} for gate in self._annotations.other_gates(pod)]
        try:
            answer = await patch_as_seen(
                self._api,
                PODS,
                pod.name,
                {"spec": {"schedulingGates": left or None}},
                resource_version=pod.resource_version,
                namespace=pod.namespace,
                uid=pod.uid,
            )
        except FASTER:
            return False
        except Forbidden as error:
            logger.warning("Not permitted to remove the scheduling gate", extra={"pod": pod.key, "error": str(error)})
            self._complaint.gate_kept(pod, self._annotations.gate)
            return False
        except TerminalError as error:
            self._complaint.write_rejected(pod, error.message)
            raise
        self._store.pods.remember(decode_pod_record(answer))
        return True

    async def _stand(self, known: Mapping[str, str]) -> bool:
        """Whether these claims, by key and uid, are still those of the decision, and none is being deleted."""
        for key, uid in known.items():
            claim = await self._claims.claim(key)
            if (claim.uid if claim is not None else "") != uid or (claim is not None and claim.deleting):
                return False
        return True
