"""What waits as rows: which zones it could go to, and why it is not there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from binder.matching.claim_shape import ClaimShape, shape_of
from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of, provisions
from kube.objects.labels import NodeSelector
from kube.objects.model import Claim, Pod
from kube.rules.topology import ZONE_LABEL, ZONE_LABELS, volume_zone, zone_of
from kube.store.snapshot import Snapshot
from why.causes.objects import CLAIM, POD, with_default_class
from why.facts.facts import Facts, Source, Unread
from why.report.report import Item, WhyReport
from why.view.model.view import PendingRow

Zones = frozenset[str]

ANYWHERE: Final = None
"""No zone is ruled out."""


class WaitingCause(Struct, frozen=True):
    """Why something waits, and the zones it could go to; None for every zone."""

    code: str
    problem: bool
    conclusive: bool
    message: str
    zones: Zones | None


def claim_key(key: str) -> str:
    return f"pvc/{key}"


def pod_key(key: str) -> str:
    return f"pod/{key}"


def waiting_rows(snapshot: Snapshot, causes: Mapping[str, WaitingCause]) -> dict[str, PendingRow]:
    """Return the claims that are not bound, and the pods that wait although all their claims are."""
    zones = tuple(sorted({zone_of(node.labels) for node in snapshot.nodes.values()} - {""}))
    rows = {row.key: row for row in (*_claims(snapshot), *_pods(snapshot))}
    rows = {key: _with_cause(row, causes[key], zones) if key in causes else row for key, row in rows.items()}
    return dict(sorted(rows.items(), key=lambda known: (not known[1].problem, known[0])))


def _claims(snapshot: Snapshot) -> Iterator[PendingRow]:
    for key, claim in snapshot.claims.items():
        if not claim.bind_finished or claim.phase == "Lost":
            users = sorted(snapshot.pods_by_claim.get(key, ()))
            yield PendingRow(
                key=claim_key(key),
                storage_class=class_of(claim),
                size=quantity_text(claim.request),
                pod=users[0] if users else "",
                since=claim.created,
            )


def _pods(snapshot: Snapshot) -> Iterator[PendingRow]:
    for key, pod in snapshot.pods.items():
        if pod.phase == "Pending" and not pod.node_name and pod.claims and not pod.deleting:
            claims = [snapshot.claims.get(each) for each in pod.claim_keys]
            if all(claim is not None and claim.bind_finished for claim in claims):
                yield PendingRow(key=pod_key(key), pod=key, since=pod.created)


def _with_cause(row: PendingRow, cause: WaitingCause, zones: Sequence[str]) -> PendingRow:
    allowed = tuple(zone for zone in zones if cause.zones is ANYWHERE or zone in cause.zones)
    return replace(
        row,
        zones=allowed,
        everywhere=cause.zones is ANYWHERE,
        code=cause.code,
        problem=cause.problem,
        conclusive=cause.conclusive,
        message=cause.message,
    )


def causes_of(facts: Facts, report: WhyReport) -> dict[str, WaitingCause]:
    """Return the cause of each claim and pod that the report is about. A claim waits for what its pod waits for."""
    places = Places(facts)
    causes: dict[str, WaitingCause] = {}
    for item in report.items:
        key = f"{item.namespace}/{item.name}"
        if item.kind == POD:
            pod = facts.snapshot.pods[key]
            causes[pod_key(key)] = _cause(item, places.of_pod(pod))
            for claim in _open_claims(facts.snapshot, pod.claim_keys):
                causes.setdefault(claim_key(claim.key), _cause(item, places.of(claim, pod)))
        elif item.kind == CLAIM and key in facts.snapshot.claims:
            causes[claim_key(key)] = _cause(item, places.of(facts.snapshot.claims[key], None))
    return causes


def _open_claims(snapshot: Snapshot, keys: Iterable[str]) -> Iterator[Claim]:
    for key in keys:
        claim = snapshot.claims.get(key)
        if claim is not None and not claim.bind_finished:
            yield claim


def _cause(item: Item, zones: Zones | None) -> WaitingCause:
    return WaitingCause(str(item.code), item.problem, item.conclusive, item.message, zones)


class Places:
    """Which zones claims could go to. Claims of one shape are looked up once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[ClaimShape, Zones | None] = {}

    def of_pod(self, pod: Pod) -> Zones | None:
        """Return the zones that the pod's volumes and its node selector leave."""
        zones = _chosen_zone(pod)
        for key in pod.claim_keys:
            claim = self._facts.snapshot.claims.get(key)
            if claim is not None:
                zones = _both(zones, self._of(claim))
        return zones

    def of(self, claim: Claim, pod: Pod | None) -> Zones | None:
        """Return the zones that have a volume for the claim, or where one can be made, as far as its pod allows."""
        return self._of(claim) if pod is None else _both(self._of(claim), self.of_pod(pod))

    def _of(self, claim: Claim) -> Zones | None:
        snapshot = self._facts.snapshot
        requested = snapshot.volumes.get(claim.volume_name)
        if requested is not None:
            zone = volume_zone(requested)
            return frozenset({zone}) if zone else ANYWHERE
        try:
            self._facts.need(Source.CLASSES, Source.VOLUMES)
            wanted = with_default_class(self._facts, claim)
        except Unread:
            return ANYWHERE
        shape = shape_of(wanted)
        if shape not in self._known:
            self._known[shape] = self._looked_up(wanted)
        return self._known[shape]

    def _looked_up(self, claim: Claim) -> Zones | None:
        zones: Zones | None = frozenset()
        for volume in self._facts.derived.view.index.candidates(claim):
            zone = volume_zone(volume)
            if not zone:
                return ANYWHERE
            zones = _either(zones, frozenset({zone}))
        snapshot = self._facts.snapshot
        if provisions(claim, snapshot.classes):
            zones = _either(zones, _named_zones(snapshot.classes[class_of(claim)].allowed_topologies))
        return zones


def _chosen_zone(pod: Pod) -> Zones | None:
    zone = dict(pod.node_selector).get(ZONE_LABEL)
    return frozenset({zone}) if zone else ANYWHERE


def _named_zones(topologies: NodeSelector | None) -> Zones | None:
    """Return the zones that a class allows; a topology that names none allows them all."""
    if topologies is None or not topologies.terms:
        return ANYWHERE
    zones: Zones | None = frozenset()
    for term in topologies.terms:
        named = [each for each in term.match_expressions if each.key in ZONE_LABELS]
        zones = _either(zones, frozenset(named[0].values) if named else ANYWHERE)
    return zones


def _either(zones: Zones | None, other: Zones | None) -> Zones | None:
    return ANYWHERE if zones is ANYWHERE or other is ANYWHERE else zones | other


def _both(zones: Zones | None, other: Zones | None) -> Zones | None:
    if zones is ANYWHERE:
        return other
    return zones if other is ANYWHERE else zones & other
