"""Volumes as rows: state, health, where they are, and who uses them. A row is made anew only when it may differ."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from immutables import Map

from binder.health.node_storage import NodeStorage
from binder.health.quarantine import in_quarantine
from binder.health.reported_health import claim_of, reported
from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from csi.health.sources import combined_finding
from kube.objects.model import Claim, Pod, Volume, VolumeAttachment, value_of
from kube.rules.quantity import NANO
from kube.rules.selectors import NAME_FIELD
from kube.rules.topology import HOSTNAME_LABEL, is_on_one_node, volume_zone
from kube.store.snapshot import Snapshot
from prebinder.view.model.view import VolumeRow, VolumeState

_Basis = tuple[object, ...]
"""The objects that a row was made of."""

_PHASES: Final[Mapping[str, VolumeState]] = {str(state): state for state in VolumeState}


class VolumeRows:
    """Makes the rows of one snapshot after another, and remembers those whose objects are still the same."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        self._node_storage = NodeStorage()
        self._rows: dict[str, tuple[_Basis, VolumeRow]] = {}
        self._attachments: Map[str, VolumeAttachment] = Map()
        self._attached: dict[str, tuple[str, ...]] = {}

    def rows(self, snapshot: Snapshot, now: datetime) -> dict[str, VolumeRow]:
        """Return the rows by the volumes' names."""
        if snapshot.attachments is not self._attachments:
            self._attachments, self._attached = snapshot.attachments, _nodes_by_volume(snapshot)
        known = self._rows
        self._rows = {name: self._row(known, volume, snapshot, now) for name, volume in snapshot.volumes.items()}
        return {name: row for name, (_, row) in self._rows.items()}

    def _row(
        self, known: Mapping[str, tuple[_Basis, VolumeRow]], volume: Volume, snapshot: Snapshot, now: datetime
    ) -> tuple[_Basis, VolumeRow]:
        claim, attached = claim_of(volume, snapshot), self._attached.get(volume.name, ())
        pods = tuple(_users(claim, snapshot))
        # What nodes report of their storage, and whether a reservation is over, can change without the volume.
        unsteady = volume.driver in snapshot.csi_nodes_by_ailing_driver or self._annotations.any_on(volume)
        basis = (volume, claim, attached, *pods)
        held = known.get(volume.name)
        if held is not None and not unsteady and _same(held[0], basis):
            return held
        row = self._made(volume, pods, attached, snapshot, now)
        # Equal rows stay one object: who looks for changes compares by identity first.
        return (basis, held[1]) if held is not None and held[1] == row else (basis, row)

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
            zone=volume_zone(volume),
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


def _state(volume: Volume, annotations: Annotations, *, reserved: bool) -> VolumeState:
    if volume.deleting:
        return VolumeState.TERMINATING
    if in_quarantine(volume, annotations):
        return VolumeState.QUARANTINED
    state = _PHASES.get(volume.phase, VolumeState.PENDING)
    held = reserved or volume.claim is not None
    return VolumeState.RESERVED if state is VolumeState.AVAILABLE and held else state


def _users(claim: Claim | None, snapshot: Snapshot) -> Iterator[Pod]:
    if claim is not None:
        for key in sorted(snapshot.pods_by_claim.get(claim.key, ())):
            yield snapshot.pods[key]


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


def _same(held: _Basis, basis: _Basis) -> bool:
    # Records are compared by identity: an informer replaces a record whenever the object changes.
    return len(held) == len(basis) and all(
        a is b or (isinstance(a, tuple) and a == b) for a, b in zip(held, basis, strict=True)
    )
