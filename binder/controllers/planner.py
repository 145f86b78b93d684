"""Collects pods for a short while and plans them together, so that they do not compete for volumes.

A pass works on one frozen view, outside the event loop: its duration depends on what users created, and the Lease has
to be renewed meanwhile. Passes never overlap, and each records its reservations in the ledger before the next takes its
view: what one pass reserved, the next one sees, long before the watch shows it. Changes during a pass are handled like
any change between a decision and its writes: the pod is compared before its decision is returned, and the writes are
conditional.

Which room is taken by pods without a node is derived from the view in each pass (binder.booking). What an attempt wrote
is in the store when it ends, for every response is put there; if it ended without a certain outcome, its holds stay
until the volumes have been read.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

from binder.assignment.volume_policy import reject_health
from binder.controllers.available_volumes import AvailableVolumes
from binder.controllers.batcher import Batch, Batcher
from binder.controllers.nodes_to_come import NodesToCome
from binder.data_sources.snapshots import Snapshots
from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from binder.model.decision import Decision, Finish, Mode, Placement, Provision, Reject, Reserve, Wait
from binder.model.demand import Demand
from binder.model.ledger import Ledger
from binder.model.view import PlanSettings, View
from binder.model.waiting_pod import Waiting, all_waiting, refreshed
from binder.new_nodes.joining import with_new_nodes
from binder.node_selection.selection import still_fits
from binder.planning.claim_standing import mode_of
from binder.planning.commitment import decisive
from binder.planning.plan import Caches, holds_of, plan, selections_of
from binder.planning.pod_claims import open_claims, snapshots_of
from binder.planning.pod_demand import demand_of
from binder.planning.spare_volumes import spare_volumes
from binder.provisioning.claims_in_flight import is_begun, size_of
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.tracking import Provisioning
from binder.rebalance.integer_program import Solve
from binder.writers.health_gate import HealthGate
from kube.background import Aside
from kube.clock import Clock
from kube.objects.model import SELECTED_NODE, Claim, Pod, StorageClass, Volume, value_of
from kube.store.store import Store

MAX_CLAIMS_PER_PASS: Final = 5000
"""Claims after which further pods wait for the next pass."""
FIRST_PODS: Final = 50
"""At most so many pods are planned before it is known which pods come with them."""
CHOICE: Final = 4
"""They must have a choice of so many times as many volumes as they are."""
ANSWERED_IN_A_TURN: Final = 25
"""Pods and claims whose decisions are returned without a pause: each begins its writes in the same turn."""

Solving = Callable[[], AbstractContextManager[Solve]]
"""A solver for the length of a pass (`binder.solver.solver_process`)."""


class Planner:
    """Decides about pods. Keeps the ledger in sync with the store."""

    def __init__(  # noqa: PLR0913 - what it needs of its term, by name
        self,
        store: Store,
        gate: HealthGate,
        clock: Clock,
        settings: PlanSettings,
        *,
        to_come: NodesToCome,
        snapshots: Snapshots,
        aside: Aside,
        solving: Solving,
    ) -> None:
        self._aside, self._solving = aside, solving
        self._to_come, self._snapshots = to_come, snapshots
        self._caches = Caches()
        self._node_storage = NodeStorage()
        self._store = store
        self._gate = gate
        self._clock = clock
        self._settings = settings
        self._available = AvailableVolumes(store)
        self.ledger = Ledger()
        self.prepared = asyncio.Event()
        """Set when `view` shows every Available volume."""
        self._provisioning: Provisioning | None = None
        """What is in flight in pools of storage; nothing as long as no class is in mode provision."""
        self._waiting: Waiting | None = None
        self._changed: dict[str, None] = {}
        """Pods that may have come to wait for a node, or have ceased to, since `_waiting` was computed."""
        self._batcher: Batcher[Decision] = Batcher(
            clock, self._pass, self._claims_of, MAX_CLAIMS_PER_PASS, self._have_plenty
        )

    async def prepare(self) -> None:
        """Before `following`: index the Available volumes."""
        await self._available.prepare()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the store while inside the context; `decide` works only then."""
        self._available.catch_up()
        self.prepared.set()
        with ExitStack() as stack:
            stack.callback(self._stop_provisioning)
            for storage_class in self._store.snapshot().classes.values():
                self._follow_provisioning(storage_class)
            stack.enter_context(self._to_come.following())
            stack.enter_context(self._store.volumes.listening(self._volume_changed))
            stack.enter_context(self._store.claims.listening(self._claim_changed))
            stack.enter_context(self._store.pods.listening(self._pod_changed))
            stack.enter_context(self._store.classes.listening(self._class_changed))
            try:
                yield
            finally:
                self._batcher.cancel()

    async def decide(self, pod_key: str) -> Decision | None:
        """Return the decision of the next pass; None if there is no such pod. Its volumes are reserved from then on."""
        return await self._batcher.request(pod_key)

    def stands(self, decision: Reserve | Finish | Provision) -> bool:
        """Whether a decision made moments ago still holds, now that its volumes have been probed."""
        if not self._is_about(decision.pod):
            return False
        view, now = self.view(), self._clock.now()
        return all(
            reject_health(view, placement.volume, now) is None
            and (isinstance(decision, Finish) or self._is_held(placement))
            for placement in decision.placements
        )

    def has_room(self, decision: Provision) -> bool:
        if self._provisioning is not None:
            self._provisioning.ledger(self._store.snapshot(), self._clock.now())
        return still_fits(self.view(), decision, self._clock.now())

    def has_free_volume(self, claim: Claim) -> bool:
        return _has(self._available.index, claim, 1)

    def withheld(self, decision: Reserve | Finish | Provision) -> Reject | None:
        """Return the rejection if the health of chosen volumes is unknown, now that they have been probed."""
        view, now = self.view(), self._clock.now()
        rejected = [reject_health(view, volume, now) for volume in decision.volumes]
        unknown = tuple(each for each in rejected if each is not None and each.reason is Reason.HEALTH_UNKNOWN)
        begun = isinstance(decision, Finish)
        return Reject(decision.pod, Reason.HEALTH_UNKNOWN, unknown, begun=begun) if unknown else None

    async def spare(self, decision: Reserve | Finish | Provision, most: int) -> tuple[Volume, ...]:
        """Return volumes that the pod may get instead, at most so many for each claim; none if binds have begun."""
        if isinstance(decision, Finish):
            return ()
        return await self._aside(partial(spare_volumes, self.view(), decision, self._clock.now(), most))

    def settled(self, pod_key: str) -> None:
        """The store shows what became of the pod's decision, or nothing was written for it."""
        held = [hold.volume for hold in self.ledger.of_pod(pod_key)]
        self.ledger = self.ledger.without(*held).without_lift(pod_key).without_selections(pod_key)

    def doubted(self, pod_key: str) -> None:
        """An attempt at the pod's decision has ended, and the store may not show yet what it wrote."""
        self.ledger = self.ledger.doubted(pod_key).without_lift(pod_key)

    def doubts(self, pod_key: str) -> tuple[str, ...]:
        """Return the volumes to be read before the pod is `settled`."""
        return tuple(hold.volume for hold in self.ledger.of_pod(pod_key) if hold.in_doubt)

    def doubted_claims(self, pod_key: str) -> tuple[str, ...]:
        """Return the claims to be read before the pod is `settled`."""
        return tuple(each.claim_key for each in self.ledger.selected_for(pod_key) if each.in_doubt)

    def not_in_flight(self) -> Mapping[str, int]:
        """Return how many claims with a selected node and no volume take no room, by reason (`Why`)."""
        return Counter(str(claim.why) for claim in self._pools().not_counted(self._clock.now()))

    def _claims_of(self, pod_key: str) -> int:
        pod = self._store.snapshot().pods.get(pod_key)
        return 0 if pod is None else len(pod.claims)

    def _have_plenty(self, pod_keys: Collection[str]) -> bool:
        """Whether few pods wait, with one claim each and a choice of so many volumes that none is in another's way.

        Planned with those to come they would hardly get other volumes. Planned at once, they occupy the PV controller
        before it has seen the claims of the others: it spends one of its 20 requests a second on an Event about each
        that it sees before a volume names it.
        """
        if len(pod_keys) > FIRST_PODS:
            return False
        snapshot = self._store.snapshot()
        pods = [snapshot.pods[key] for key in pod_keys if key in snapshot.pods]
        return all(len(pod.claims) == 1 for pod in pods) and all(
            _has(self._available.index, claim, CHOICE * len(pods))
            for pod in pods
            for claim in open_claims(pod, snapshot)
        )

    async def _pass(self, requests: Batch[Decision]) -> None:
        snapshot, now = self._store.snapshot(), self._clock.now()
        pods = [snapshot.pods[key] for key in requests if key in snapshot.pods]
        for pod in pods:
            self.settled(pod.key)
        await self._answer(requests, await self._planned(pods, now))

    async def _planned(self, pods: Sequence[Pod], now: datetime) -> Mapping[str, Decision | Exception]:
        await self._to_come.refresh()
        if self._provisioning is not None:
            await self._snapshots.refresh(snapshots_of(pods, self._store.snapshot()))
            await self._follow_up()
        view, changed = self.view(), self._changed
        self._changed = {}
        try:
            work = partial(_pass, view, changed, pods, now, self._caches, self._solving)
            self._waiting, decided = await self._aside(work)
        except BaseException:
            self._changed |= changed
            raise
        return decided

    async def _answer(self, requests: Batch[Decision], decided: Mapping[str, Decision | Exception]) -> None:
        """Record the reservations and return the decisions, a few at a time: all at once would block the event loop."""
        noted = 0
        for key, answer in requests.items():
            decision = decided.get(key)
            noted += 1
            if isinstance(decision, Exception):
                answer.fail(decision)
            elif decision is None:
                answer.resolve(None)
            elif self._is_about(decision.pod):
                self.ledger = self.ledger.with_holds(holds_of(decision)).with_selections(selections_of((decision,)))
                if isinstance(decision, Wait) and decision.node:
                    self.ledger = self.ledger.with_lift(key, decision.pod.uid)
                answer.resolve(decision)
                noted += len(decision.pod.claims)
            if noted >= ANSWERED_IN_A_TURN:
                noted = 0
                await asyncio.sleep(0)

    def view(self) -> View:
        """Return everything that a pass may read, as of now. Complete only when `prepared`; pools as of a pass."""
        return View(
            self._store.snapshot(),
            self._available.index,
            self.ledger,
            self._gate.verdicts,
            self._settings,
            silent=self._gate.silent(),
            node_storage=self._node_storage,
            waiting=self._waiting,
            new_nodes=self._to_come.known(),
            pools=self._pools(),
            sources=self._snapshots.known(),
        )

    def _pools(self) -> PoolLedger:
        return PoolLedger() if self._provisioning is None else self._provisioning.latest

    async def _follow_up(self) -> None:
        """Bring what is in flight up to date, a few objects at a time."""
        snapshot, now = self._store.snapshot(), self._clock.now()
        while self._provisioning is not None and not self._provisioning.step(snapshot, now):
            await asyncio.sleep(0)
            snapshot, now = self._store.snapshot(), self._clock.now()

    def _is_about(self, planned: Pod) -> bool:
        """Whether the pod is still what it was when it was planned."""
        pod = self._store.snapshot().pods.get(planned.key)
        return pod is not None and decisive(pod) == decisive(planned)

    def _is_held(self, placement: Placement) -> bool:
        hold = self.ledger.holds.get(placement.volume.name)
        return hold is not None and hold.claim_uid == placement.claim.uid

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        self._available.changed(old, new)
        claims = self._store.snapshot().claims_by_volume
        for volume in (old, new):
            if volume is not None:
                reserved = self._settings.annotations.reservation_of(volume)
                aside = value_of(volume.annotations, self._settings.annotations.set_aside_for) or ""
                named = (volume.claim.key if volume.claim else "", reserved.claim if reserved else "", aside)
                for key in {*named, *claims.get(volume.name, ())}:
                    self._users_changed(key)

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        claim = new or old
        if claim is not None:
            self._users_changed(claim.key)
        if old is not None and new is not None and self._provisioning is not None:
            self._selection_removed(old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.claims:
            self._changed[pod.key] = None

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """What becomes of its claims may change; that is rare enough for a search."""
        storage_class = new or old
        if new is not None:
            self._follow_provisioning(new)
        for claim in self._store.snapshot().claims.values():
            if storage_class is not None and class_of(claim) == storage_class.name:
                self._users_changed(claim.key)

    def _follow_provisioning(self, storage_class: StorageClass) -> None:
        """Count what is in flight from now on, if the class needs it: else that costs time and memory for nothing."""
        if self._provisioning is not None or not storage_class.provisions:
            return
        if mode_of(storage_class, self._settings) is Mode.PROVISION:
            self._provisioning = Provisioning(self._settings.annotations).follow(self._store)

    def _stop_provisioning(self) -> None:
        if self._provisioning is not None:
            self._provisioning.unfollow(self._store)
            self._provisioning = None

    def _selection_removed(self, old: Claim, new: Claim) -> None:
        """A provisioner removes the selected node if its driver had no room for the volume there, or if it is gone.

        We remove our own record with it, and it stays when another one does.
        """
        node = self._store.snapshot().nodes.get(value_of(old.annotations, SELECTED_NODE) or "")
        if node is None or old.uid != new.uid or value_of(new.annotations, SELECTED_NODE):
            return
        if not (is_begun(new) and value_of(new.annotations, self._settings.annotations.selected_at)):
            return
        assert self._provisioning is not None
        self._provisioning.exhausted(class_of(new), node, size_of(new), self._clock.now())

    def _users_changed(self, claim_key: str) -> None:
        self._changed.update(dict.fromkeys(self._store.snapshot().pods_by_claim.get(claim_key, ())))


def _has(index: VolumeIndex, claim: Claim, number: int) -> bool:
    """Whether at least so many Available volumes fit the claim."""
    return sum(1 for _ in islice(index.candidates(claim), number)) == number


def _pass(
    view: View, changed: Iterable[str], pods: Sequence[Pod], now: datetime, caches: Caches, solving: Solving
) -> tuple[Waiting, Mapping[str, Decision | Exception]]:
    """Return the pods that wait for a node, and the decisions."""
    annotations = view.settings.annotations
    if view.waiting is None:
        waiting = all_waiting(view.snapshot, annotations)
    else:
        waiting = refreshed(view.waiting, changed, view.snapshot, annotations)
    return waiting, _decided(replace(view, waiting=waiting), pods, now, caches, solving)


def _decided(
    view: View, pods: Sequence[Pod], now: datetime, caches: Caches, solving: Solving
) -> dict[str, Decision | Exception]:
    """Plan all together; if that fails, plan each alone, the most urgent first, so that one malformed pod does not
    affect the others.
    """
    try:
        with solving() as solve:
            decisions = with_new_nodes(view, plan(view, pods, now, caches, solve), now, solve)
            return {decision.pod.key: decision for decision in decisions}
    except Exception as error:
        if len(pods) == 1:
            return {pods[0].key: error}
    decided: dict[str, Decision | Exception] = {}
    for pod in _by_urgency(view, pods, now):
        alone = _decided(view, [pod], now, caches, solving)[pod.key]
        if not isinstance(alone, Exception):
            ledger = view.ledger.with_holds(holds_of(alone)).with_selections(selections_of((alone,)))
            view = replace(view, ledger=ledger)
        decided[pod.key] = alone
    return decided


def _by_urgency(view: View, pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Sort those that need volumes as a pass does; the others get none in any order."""
    urgent: list[Demand] = []
    others: list[Pod] = []
    for pod in pods:
        try:
            demand = demand_of(view, pod, now)
        except Exception:  # It is raised again when the pod is planned alone, and answered then.
            others.append(pod)
            continue
        if isinstance(demand, Demand):
            urgent.append(demand)
        else:
            others.append(pod)
    return [*(demand.pod for demand in sorted(urgent, key=lambda demand: demand.urgency)), *others]
