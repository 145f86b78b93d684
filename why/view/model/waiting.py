"""What waits as rows: which zones it could go to, and why it is not there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of
from kube.objects.model import Claim
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot
from why.causes.objects import CLAIM, POD
from why.facts.facts import Facts
from why.report.report import Item, WhyReport
from why.view.model.places import ANYWHERE, Places, Zones
from why.view.model.view import PendingRow


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
    """Return the pods that wait, as the command lists them, and the claims that are not bound, with their pods."""
    zones = tuple(sorted({zone_of(node.labels) for node in snapshot.nodes.values()} - {""}))
    rows = {row.key: row for row in (*_claims(snapshot), *_pods(snapshot, causes))}
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


def _pods(snapshot: Snapshot, causes: Mapping[str, WaitingCause]) -> Iterator[PendingRow]:
    """Yield the pods that the command explains, and those of which the cause is still to be determined."""
    for key, pod in snapshot.pods.items():
        waits = pod.phase == "Pending" and not pod.node_name and pod.claims and not pod.deleting
        if waits or pod_key(key) in causes:
            yield PendingRow(key=pod_key(key), pod=key, node=pod.node_name, since=pod.created)


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
