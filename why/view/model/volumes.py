"""Volumes as rows: state, health, where they are, and what uses them. A row is rebuilt only when it may differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from binder.health.node_storage import NodeStorage
from binder.health.quarantine import in_quarantine
from binder.health.reported_health import claim_of, reported
from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from csi.health.sources import combined_finding
from kube.objects.model import Claim, Pod, Volume, value_of
from kube.rules.quantity import NANO
from kube.rules.selectors import NAME_FIELD
from kube.rules.topology import HOSTNAME_LABEL, is_on_one_node, volume_zone, zone_of
from kube.store.snapshot import Snapshot
from why.view.model.view import VolumeRow, VolumeState

_PHASES: Final[Mapping[str, VolumeState]] = {str(state): state for state in VolumeState}


@dataclass(frozen=True, slots=True)
class _Known:
    """A row and the objects that it was made of. `steady`: nothing else can change it."""

    row: VolumeRow
    volume: Volume
    claim: Claim | None
    pods: tuple[Pod, ...]
    attached: tuple[str, ...]
    steady: bool


class VolumeRows:
    """Makes the rows of one snapshot after another, and remembers those whose objects are still the same.

    Records are compared by identity: a store replaces a record whenever the object changes.
    """

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        self._node_storage = NodeStorage()
        self._known: dict[str, _Known] = {}
        self._last = Snapshot()
        self._attached: Mapping[str, tuple[str, ...]] = {}
        self._zones: Mapping[str, str] = {}

    def rows(self, snapshot: Snapshot, now: datetime) -> dict[str, VolumeRow]:
        """Return the rows by the volumes' names."""
        last, self._last = self._last, snapshot
        if snapshot.attachments is not last.attachments:
            self._attached = _nodes_by_volume(snapshot)
        zones, self._zones = self._zones, _zones_of_nodes(snapshot, self._zones, last)
        same_uses = (
            self._zones == zones
            and snapshot.claims is last.claims
            and snapshot.pods is last.pods
            and snapshot.attachments is last.attachments
            and not snapshot.csi_nodes_by_unhealthy_driver
        )
        known = self._known
        self._known = {
            name: held
            if same_uses and (held := known.get(name)) is not None and held.steady and held.volume is volume
            else self._looked_at(known.get(name), volume, snapshot, now)
            for name, volume in snapshot.volumes.items()
        }
        return {name: held.row for name, held in self._known.items()}

    def _looked_at(self, held: _Known | None, volume: Volume, snapshot: Snapshot, now: datetime) -> _Known:
        claim, attached = claim_of(volume, snapshot), self._attached.get(volume.name, ())
        pods = _users(claim, snapshot)
        # What nodes report of their storage, and whether a reservation is over, can change without the volume.
        unhealthy = volume.driver in snapshot.csi_nodes_by_unhealthy_driver
        is_unchanged = held is not None and held.steady and not unhealthy and _same(held, volume, claim, pods, attached)
        if held is not None and is_unchanged and held.row.zone == self._zone(volume):
            return held
        row = self._made(volume, pods, attached, snapshot, now)
        if held is not None and held.row == row:
            # One object for equal rows: who looks for changes compares by identity first.
            row = held.row
        steady = not unhealthy and not self._annotations.any_on(volume)
        return _Known(row, volume, claim, pods, attached, steady)

    def _made(
        self, volume: Volume, pods: tuple[Pod, ...], attached: tuple[str, ...], snapshot: Snapshot, now: datetime
    ) -> VolumeRow:
        annotations = self._annotations
        reservation = annotations.reservation_of(volume)
        in_force = reservation is not None and reservation.in_force(now)
        state = _state(volume, annotations, reserved=in_force)
        finding = combined_finding(reported(volume, snapshot, self._node_storage, annotations, (), now))
        quarantine = value_of(volume.annotations, annotations.quarantine) or ""
        owner = volume.claim.key if volume.claim is not None and state is not VolumeState.QUARANTINED else ""
        return VolumeRow(
            name=volume.name,
            zone=self._zone(volume),
            state=state,
            size=quantity_text(volume.capacity),
            bytes=volume.capacity // NANO,
            storage_class=class_of(volume),
            nodes=_places(volume, pods, attached),
            claim=owner or (reservation.claim if reservation is not None and in_force else ""),
            pods=tuple(pod.key for pod in pods),
            health=str(finding.state) if finding is not None else "",
            unhealthy=finding is not None and finding.unhealthy,
            reason=quarantine or (finding.reason if finding is not None else ""),
            until=reservation.expires_at if reservation is not None and state is VolumeState.RESERVED else None,
            driver=volume.driver or volume.source,
            local=is_on_one_node(volume),
        )

    def _zone(self, volume: Volume) -> str:
        """Return the volume's zone, or that of the node on which it is."""
        return volume_zone(volume) or next((self._zones.get(node, "") for node in _own_nodes(volume)), "")


def _zones_of_nodes(snapshot: Snapshot, known: Mapping[str, str], last: Snapshot) -> Mapping[str, str]:
    if snapshot.nodes is last.nodes:
        return known
    return {name: zone_of(node.labels) for name, node in snapshot.nodes.items()}


def _state(volume: Volume, annotations: Annotations, *, reserved: bool) -> VolumeState:
    if volume.deleting:
        return VolumeState.TERMINATING
    if in_quarantine(volume, annotations):
        return VolumeState.QUARANTINED
    state = _PHASES.get(volume.phase, VolumeState.PENDING)
    held = reserved or volume.claim is not None or bool(annotations.pin_keys(volume))
    return VolumeState.RESERVED if state is VolumeState.AVAILABLE and held else state


def _users(claim: Claim | None, snapshot: Snapshot) -> tuple[Pod, ...]:
    keys = snapshot.pods_by_claim.get(claim.key) if claim is not None else None
    return tuple(snapshot.pods[key] for key in sorted(keys)) if keys else ()


def _places(volume: Volume, pods: tuple[Pod, ...], attached: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes that the volume is on: of a local one its own, of another those that use or attached it."""
    return tuple(dict.fromkeys((*_own_nodes(volume), *attached, *(pod.node_name for pod in pods if pod.node_name))))


def _own_nodes(volume: Volume) -> Iterator[str]:
    if volume.node_affinity is None:
        return
    for term in volume.node_affinity.terms:
        for wanted in (*term.match_expressions, *term.match_fields):
            if wanted.key in {HOSTNAME_LABEL, NAME_FIELD} and wanted.operator == "In":
                yield from wanted.values


def _nodes_by_volume(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    nodes: dict[str, tuple[str, ...]] = {}
    for attachment in snapshot.attachments.values():
        if attachment.volume_name and attachment.node_name:
            nodes[attachment.volume_name] = (*nodes.get(attachment.volume_name, ()), attachment.node_name)
    return nodes


def _same(held: _Known, volume: Volume, claim: Claim | None, pods: tuple[Pod, ...], attached: tuple[str, ...]) -> bool:
    return (
        held.volume is volume
        and held.claim is claim
        and held.attached == attached
        and len(held.pods) == len(pods)
        and all(a is b for a, b in zip(held.pods, pods, strict=True))
    )
