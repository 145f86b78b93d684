"""What the controller knows of nodes to come: Karpenter's NodePools, the pods ahead of their nodes, and who is late.

NodePools are listed when pods need them, at most once in FRESH_SECONDS, so that a cluster without such pods, or without
Karpenter, costs nothing. Everything else follows from the objects, but how many pods may be ahead: after a restart that
is one again.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from binder.matching.matching import class_of
from binder.model.new_nodes import NewNodes, Place
from binder.model.waiting_pod import waiting_pod
from binder.new_nodes.ahead import pods_ahead, pods_ahead_in, stepped_up
from binder.new_nodes.bringing import is_brought
from binder.planning.pod_claims import claims_of
from binder.reporting.announce import Announcer
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.clock import Clock, every
from kube.decoding.decode_node_pool import decode_node_pool
from kube.errors import KubeError, NotFound
from kube.objects.api_resource import NODE_POOLS
from kube.objects.model import Pod, StorageClass
from kube.objects.node_pool import NodePool
from kube.persistent_map import Map
from kube.store.store import Store

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 5.0
"""How old a list of NodePools may be: their limits are what a volume is committed on."""
MAX_POOLS: Final = 200
CHECK_SECONDS: Final = 10.0


class NodesToCome:
    """Follows the pods of classes whose volumes join new nodes. `node_came` is called with a class of such a pod."""

    def __init__(
        self,
        api: KubeApi,
        store: Store,
        clock: Clock,
        annotations: Annotations,
        announcer: Announcer,
        *,
        joining: bool = True,
    ) -> None:
        """Without `joining` no further pod is planned ahead of a node; those that are ahead are followed."""
        self._joining = joining
        self._api, self._store, self._clock, self._annotations = api, store, clock, annotations
        self._announcer = announcer
        self._pools: tuple[NodePool, ...] | None = None
        self._read_at = float("-inf")
        self._warned = False
        self._classes: set[str] = set()
        self._limits: Map[Place, int] = Map()
        self.node_came: list[Callable[[str], None]] = []

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow classes and pods while inside the context."""
        for storage_class in self._store.snapshot().classes.values():
            self._class_changed(None, storage_class)
        with self._store.classes.listening(self._class_changed), self._store.pods.listening(self._pod_changed):
            yield

    async def run(self) -> None:
        """Report pods whose nodes are late until cancelled."""
        await every(CHECK_SECONDS, self._clock, self._report)

    async def refresh(self) -> None:
        """Read the NodePools if a class needs them and they are not recent. If that fails none is known."""
        now = self._clock.monotonic()
        if not self._classes or now - self._read_at < FRESH_SECONDS:
            return
        self._read_at = now
        try:
            page = await self._api.list_page(NODE_POOLS, limit=MAX_POOLS)
            read = (decode_node_pool(item) for item in page.items)
            self._pools = tuple(pool for pool in read if pool is not None)
        except KubeError as error:
            self._pools = None
            # A cluster without Karpenter answers NotFound; or Forbidden, without the component for it.
            if not isinstance(error, NotFound) and not self._warned:
                logger.warning("NodePools cannot be read; existing nodes are templates", extra={"error": str(error)})
            self._warned = True
        else:
            self._warned = False

    def known(self) -> NewNodes | None:
        """Return what planning may know; None if no class joins new nodes."""
        return NewNodes(self._pools, self._limits) if self._classes else None

    async def _report(self) -> None:
        now = self._clock.now()
        for each in pods_ahead_in(self._store.snapshot(), self._annotations):
            if each.due <= now:
                self._announcer.node_late(each, now)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is not None:
            self._classes.discard(old.name)
        if new is not None and self._joining and self._annotations.joins_new_nodes(new):
            self._classes.add(new.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that was ahead of its node, or was let go for one, may have got it."""
        if not self._classes or old is None or old.node_name or not old.claims or (new and not new.node_name):
            return
        snapshot = self._store.snapshot()
        waiting = waiting_pod(snapshot, self._annotations, old)
        names = {class_of(claim) for claim in claims_of(old, snapshot)}
        came = {name for name in names if is_brought(name, snapshot, self._annotations)}
        for each in pods_ahead((waiting,) if waiting is not None else (), snapshot.classes, self._annotations):
            if new is not None and new.uid == old.uid:
                self._limits = stepped_up(self._limits, each.places)
            came |= {name for name, _ in each.places}
        for name in came:
            for listener in self.node_came:
                listener(name)
