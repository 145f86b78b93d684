"""What the demo shows: rows of its live table, made from a snapshot of the cluster, and how they look."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from binder.health.quarantine import in_quarantine
from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState, Verdict
from kube.objects.model import Claim, Pod, Volume, value_of
from kube.rules.topology import ZONE_LABEL, zone_of
from kube.store.snapshot import Snapshot

_FONTS: Final = re.compile(r"@font-face \{[^}]*\}\s*")
_PICTURE_COLUMNS: Final = 110
"""Of the terminal that a picture for a page shows."""
COLUMNS = ("CLAIM", "POD", "ZONE", "VOLUME", "HEALTH", "STATE", "AFTER")
_COLOURS = {"Bound": "green", "Reserved": "cyan", "Binding": "cyan", "Rejected": "red", "Quarantined": "red"}


@dataclass(frozen=True, slots=True)
class Patient:
    """The volume that becomes unhealthy, and when it did."""

    volume: str
    broke: datetime


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a claim, or a volume without a claim; `claim` and `pod` are empty then.

    Ages are in seconds. `settled_after` is None until the claim is bound or rejected.
    """

    claim: str
    pod: str
    zone: str
    volume: str
    health: str
    state: str
    age: float
    settled_after: float | None

    def cells(self) -> tuple[str, ...]:
        after = self.age if self.settled_after is None else self.settled_after
        texts = (self.claim, self.pod, self.zone, self.volume, self.health, self.state)
        return (*(text or "-" for text in texts), f"{after:.1f}s")

    @property
    def settled(self) -> bool:
        """Whether the claim has its volume, or was rejected."""
        return self.state == "Bound" or self.state.startswith("Rejected")

    @property
    def name(self) -> str:
        """The subject of the row."""
        return self.claim or self.volume


def claim_rows(
    snapshot: Snapshot,
    namespace: str,
    verdicts: Mapping[str, Verdict],
    rejected: Mapping[str, str],
    settled: Mapping[str, datetime],
    now: datetime,
) -> list[Row]:
    """Return a row for every claim of the namespace, by pod and name.

    `verdicts` is by volume name, `rejected` maps a pod's key to the reason in one word, `settled` is when a claim was
    first seen bound or rejected.
    """
    rows = []
    for key, claim in snapshot.claims.items():
        if claim.namespace != namespace:
            continue
        pod = _pod_of(snapshot, key)
        name = volume_of(snapshot, claim)
        volume = snapshot.volumes.get(name)
        created = claim.created or now
        rows.append(
            Row(
                claim=claim.name,
                pod=pod.name if pod else "",
                zone=zone_of_volume(snapshot, volume),
                volume=name,
                health=health_word(verdicts.get(name)) if name else "",
                state=_state(claim, name, rejected.get(pod.key) if pod else None),
                age=max(0.0, (now - created).total_seconds()),
                settled_after=(settled[key] - created).total_seconds() if key in settled else None,
            )
        )
    return sorted(rows, key=lambda row: (row.pod, row.claim))


def patient_row(snapshot: Snapshot, verdicts: Mapping[str, Verdict], patient: Patient, now: datetime) -> Row | None:
    """Return a row for the volume that became unhealthy, None if there is no such volume."""
    volume = snapshot.volumes.get(patient.volume)
    if volume is None:
        return None
    return Row(
        claim="",
        pod="",
        zone=zone_of_volume(snapshot, volume),
        volume=volume.name,
        health=health_word(verdicts.get(volume.name)),
        state="Quarantined" if in_quarantine(volume, Annotations()) else volume.phase,
        age=(now - patient.broke).total_seconds(),
        settled_after=None,
    )


def volume_of(snapshot: Snapshot, claim: Claim) -> str:
    """Return the volume that a claim is bound to, is being bound to, or that is reserved for it; empty if there is
    none.
    """
    if claim.volume_name:
        return claim.volume_name
    held = sorted(snapshot.volumes_by_claim.get(claim.key, ()))
    return held[0] if held else value_of(claim.annotations, Annotations().reserved_volume) or ""


def zone_of_volume(snapshot: Snapshot, volume: Volume | None) -> str:
    """Return the zone in a volume's node affinity, directly or through the only node from which it is accessible."""
    if volume is None or volume.node_affinity is None:
        return ""
    for term in volume.node_affinity.terms:
        for requirement in term.match_expressions:
            if requirement.key == ZONE_LABEL:
                return ",".join(requirement.values)
            for value in requirement.values:
                if node := snapshot.nodes.get(value):
                    return zone_of(node.labels)
    return ""


def health_word(verdict: Verdict | None) -> str:
    """Return the state with a symbol, so that it can be read without colour."""
    if verdict is None:
        return "? Not probed"
    symbol = "✓" if verdict.state is HealthState.HEALTHY else "✗" if verdict.unhealthy else "?"
    return f"{symbol} {verdict.state}"


def table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table that fits into 80 columns; states are one word there."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for column in COLUMNS:
        drawn.add_column(column, no_wrap=True, justify="right" if column == "AFTER" else "left")
    for row in rows:
        cells: list[str | Text] = [*row.cells()]
        state = row.state.partition(" ")[0]
        cells[5] = Text(state, style=_COLOURS.get(state, "yellow"))
        drawn.add_row(*cells)
    return drawn


def changed_lines(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """Return a plain line for each row that is new or whose state, volume or health changed."""
    known = {row.name: (row.state, row.volume, row.health) for row in before}
    return [_line(row) for row in after if known.get(row.name) != (row.state, row.volume, row.health)]


def _line(row: Row) -> str:
    facts = [f"{key}={value}" for key in ("volume", "zone", "health") if (value := getattr(row, key))]
    return f"{row.age:6.1f}s  {row.name:<14} {row.state:<22} {' '.join(facts)}".rstrip()


def _pod_of(snapshot: Snapshot, claim_key: str) -> Pod | None:
    keys = sorted(snapshot.pods_by_claim.get(claim_key, ()))
    return snapshot.pods.get(keys[0]) if keys else None


def _state(claim: Claim, volume: str, rejection: str | None) -> str:
    if claim.phase == "Bound" and claim.bind_completed:
        return "Bound"
    if rejection and not volume:
        return f"Rejected ({rejection})"
    if claim.volume_name:
        return "Binding"
    return "Reserved" if volume else "Pending"


def save_picture(file: Path, rows: Sequence[Row], result: Iterable[str]) -> None:
    """Write an SVG of the table of claims and of the text below it. Raises OSError."""
    save_table(file, "pvc-prebinder demo", table(rows), result)


def save_table(file: Path, title: str, shown: Table, below: Iterable[str]) -> None:
    """Write an SVG of a table and of the text below it. Raises OSError."""
    console = Console(record=True, file=StringIO(), width=_PICTURE_COLUMNS, force_terminal=True, highlight=False)
    console.print(shown)
    for line in below:
        console.print(line, markup=False)
    # The fonts of the export would be loaded from elsewhere.
    picture = _FONTS.sub("", console.export_svg(title=title))
    file.write_text(picture, encoding="utf-8")
