"""Removes our scheduling gate from a pod, so that kube-scheduler considers it only when its volumes are held
(KEP-3521).

Volumes are committed for pods that carry the gate, and the controller races kube-scheduler for no other pod
(binder.planning.commitment). Users who want the guarantee put the gate on the pod; only the gate of that name is ever
removed, and nothing else of a pod is changed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from binder.booking.room import room_left
from binder.matching.claim_state import unusable_state
from binder.matching.matching import is_mine
from binder.matching.node_fit import reject_resources
from binder.model.decision import Decision, Reserve, Wait
from binder.model.waiting_pod import waiting_pod
from binder.planning.let_go import leaves_a_node
from binder.planning.pod_claims import awaits_bind
from binder.reporting.announce import Announcer
from binder.reservation.contract import Annotations
from binder.writers.attempt import OutdatedDecision
from binder.writers.object_client import FASTER, ObjectClient
from kube.errors import Forbidden, TerminalError
from kube.objects.model import Claim, Pod, Volume
from kube.store.snapshot import Snapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownClaim:
    """A claim as a decision saw it: its uid, empty if it did not exist, and the volumes held for it."""

    uid: str
    held: frozenset[str] = frozenset()


def _known(key: str, snapshot: Snapshot) -> KnownClaim:
    claim = snapshot.claims.get(key)
    return KnownClaim("" if claim is None else claim.uid, _held(key, snapshot))


def _held(key: str, snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.volumes_by_claim.get(key, ())) | frozenset(snapshot.volumes_reserved_for.get(key, ()))


class SchedulingGate:
    """Removes gates by a fenced API. `turns` bound how many are removed concurrently."""

    def __init__(
        self,
        client: ObjectClient,
        annotations: Annotations,
        announcer: Announcer,
        *,
        turns: asyncio.Semaphore,
        recovered: Callable[[], Awaitable[bool]],
    ) -> None:
        """`recovered` returns when no outage of the API server hides what happened to nodes, and whether one did."""
        self._client = client
        self._turns, self._recovered = turns, recovered
        self._annotations = annotations
        self._announcer = announcer

    def known_claims(self, pod: Pod) -> dict[str, KnownClaim]:
        """Return the claims of a pod that carries our gate by key, as the watches show them now; none of another pod.

        To be called before a decision; what is still unread then is passed to `lift`.
        """
        if not self._annotations.carries_gate(pod):
            return {}
        snapshot = self._client.snapshot()
        return {key: _known(key, snapshot) for key in pod.claim_keys}

    def awaits_bind(self, pod: Pod) -> bool:
        """Whether the gate stays until the PV controller has bound what we committed, as the watches show it now."""
        return awaits_bind(pod, self._client.snapshot(), self._annotations)

    async def lift(
        self,
        pod: Pod,
        unread: Mapping[str, KnownClaim],
        decision: Decision | None = None,
    ) -> bool:
        """Remove our gate if the pod carries it; False if it is still there and has to be tried again.

        The volumes of the pod may have changed meanwhile, their affinity included: it keeps its gate if they leave it
        no node, or if others took its room on the only one that `decision` leaves it.

        `unread` are those of its claims that are known from a watch only, as the decision saw them. They are read
        first, with the volumes held for them, because watches are not synchronised: a recreated pod may be seen beside
        its predecessor's bound claim, and a claim beside a volume that was released while the API server's response was
        lost. While a claim is being deleted kube-scheduler would not accept the pod, and one recreated since the
        decision may have no volume yet.

        Raises KubeError if the API server fails or rejects the write for another reason than a missing right.
        """
        if not self._annotations.carries_gate(pod):
            return True
        if await self._recovered():
            return False
        async with self._turns:
            # Its present state: it may have changed while it waited for its turn.
            seen = self._client.snapshot().pods.get(pod.key)
            if seen is None or seen.uid != pod.uid or not self._annotations.carries_gate(seen):
                return True
            return await self._stand(unread) and await self._remove(seen, unread, decision)

    def _runs(self, pod: Pod, decision: Decision | None) -> bool:
        """Whether the pod still has its room, and its volumes leave it a node, by what is known without a request."""
        snapshot, node = self._client.snapshot(), ""
        if isinstance(decision, Reserve | Wait):
            node, beside = decision.node, decision.beside
            if beside and node in snapshot.nodes:
                room = room_left(snapshot, node, beside - {pod.key})
                if reject_resources(pod, node, room.free) is not None:
                    return False
        waiting = waiting_pod(snapshot, self._annotations, pod)
        return waiting is None or leaves_a_node(waiting, snapshot.nodes, node)

    async def _remove(self, pod: Pod, unread: Mapping[str, KnownClaim], decision: Decision | None) -> bool:
        left = [{"name": gate} for gate in self._annotations.other_gates(pod)]

        def check() -> None:
            if not (self._runs(pod, decision) and all(self._stands(key, unread.get(key)) for key in pod.claim_keys)):
                raise OutdatedDecision(f"the claims of pod {pod.key}, their volumes or its room changed")

        try:
            await self._client.patch_pod(pod, {"spec": {"schedulingGates": left or None}}, check)
        except (*FASTER, OutdatedDecision):
            return False
        except Forbidden as error:
            logger.warning("Not permitted to remove the scheduling gate", extra={"pod": pod.key, "error": str(error)})
            self._announcer.gate_kept(pod, self._annotations.gate)
            return False
        except TerminalError as error:
            self._announcer.write_rejected(pod, error.message)
            raise
        return True

    def _stands(self, key: str, known: KnownClaim | None) -> bool:
        """Whether the claim is that of the decision and held, as far as is known without a request.

        `known` is None for a claim that was bound, or written for, by the decision itself.
        """
        snapshot = self._client.snapshot()
        claim = snapshot.claims.get(key)
        if claim is None:
            return known is not None and not known.uid
        if known is not None and claim.uid != known.uid:
            return False
        volumes = _held(key, snapshot)
        held = claim.bind_finished or any(self._is_for(claim, snapshot.volumes[name]) for name in volumes)
        return held or (known is not None and not known.held and not volumes)

    def _is_for(self, claim: Claim, volume: Volume) -> bool:
        reservation = self._annotations.reservation_of(volume)
        return is_mine(claim, volume) or (reservation is not None and reservation.is_for(claim))

    async def _stand(self, unread: Mapping[str, KnownClaim]) -> bool:
        """Whether these claims are still those of the decision, what was held is held, and none is deleted or lost."""
        for key, known in unread.items():
            claim = await self._client.claim(key)
            if (claim.uid if claim is not None else "") != known.uid:
                return False
            if claim is None or claim.bind_finished:
                held = True
            else:
                held = await self._is_held(claim, known.held | _held(key, self._client.snapshot()))
            if not held or (claim is not None and unusable_state(claim) is not None):
                return False
        return True

    async def _is_held(self, claim: Claim, volumes: frozenset[str]) -> bool:
        """Whether one of the volumes is held for the claim, or none was ever reserved for it."""
        for name in sorted(volumes):
            live = await self._client.volume(name)
            if live is not None and self._is_for(claim, live.record):
                return True
        return not volumes
