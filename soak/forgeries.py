"""Annotations of ours that others write: complete, plausible, and false.

Users of a namespace write on claims and pods, administrators also on volumes and nodes.
"""

from typing import Final

from soak.terrain import GATE, NAMESPACE, NODES, PREFIX, ZONES, pod_name

_TIMES: Final = {"bound-at": "2026-01-01T00:00:00Z", "expires-at": "9999-12-31T00:00:00Z"}
_HEALTH: Final = {
    "health": "DataLoss",
    "health-reason": "\x1b[2J forged",
    "health-since": "2026-01-01T00:00:00Z",
    "health-source": "forged",
}
_QUARANTINE: Final = {"quarantine": "DataLoss: forged", "quarantined-at": "2026-01-01T00:00:00Z"}
_PROVISION: Final = {
    "pool": "forged",
    "report-after": "9999-12-31T00:00:00Z",
    "topology": "forged",
    "selected-at": "2026-01-01T00:00:00Z",
}
_ON_CLAIMS_AND_PODS: Final = (
    *("reservation", "place", "volumes-side", "record", "pins"),
    *("health", "quarantine", "modes", "provision", "ahead", "aside"),
)
FORGERIES: Final[dict[str, tuple[str, ...]]] = {
    "forge-on-claim": (*_ON_CLAIMS_AND_PODS, "reservation", "reservation", "selected-node"),
    "forge-on-pod": _ON_CLAIMS_AND_PODS,
    "forge-on-volume": ("volumes-side", "reservation", "place", "record", "modes", "ahead", "aside"),
    "forge-on-node": ("health", "place", "modes"),
}
"""Operation -> the kinds of annotations it forges."""


def forged(kind: str, volume: str, pod: int, claim_uid: str = "") -> dict[str, str]:
    """Return the annotations of a kind. They name this volume, and the first claim of the pod by this uid."""
    if kind == "selected-node":
        return {"volume.kubernetes.io/selected-node": NODES[pod % len(NODES)]}
    claim = f"{NAMESPACE}/{pod_name(pod)}-0"
    place = {"reserved-zone": ZONES[pod % len(ZONES)], "reserved-nodes": ",".join(NODES[pod % 3 :: 3])}
    values = {
        "reservation": {"reserved-volume": volume, **_TIMES, **place},
        "place": place,
        "volumes-side": {
            "reserved-for": claim,
            "reserved-for-uid": claim_uid or "forged",
            "reserved-for-pod-uid": "forged",
            "reserved-by": "forged/99",
            **_TIMES,
            **place,
        },
        "record": {"claim-ref": f"{claim}/forged"},
        "aside": _set_aside(claim, claim_uid or "forged"),
        "pins": {
            "held-for": claim,
            "held-set-uid": "forged",
            "held-by": "forged/99",
            "replaces": f"{claim}/forged/{volume}",
            "was-for": f"{claim}/forged",
            "namespace-uid": "forged",
            "hold-replicas": "1000000",
        },
        "ahead": {
            "awaits-node": "forged 9999-12-31T00:00:00Z",
            "new-nodes": "join-volumes",
            "new-node-within": "1000h",
            "new-node-storage": "8Ei",
        },
        "provision": _PROVISION,
        "health": _HEALTH,
        "quarantine": _QUARANTINE,
        "modes": {"mode": "off", GATE.removeprefix(PREFIX): "lifted"},
    }
    return {PREFIX + key: value for key, value in values[kind].items()}


def _set_aside(claim: str, uid: str) -> dict[str, str]:
    return {"set-aside-for": claim, "set-aside-for-uid": uid, "set-aside-at": _TIMES["bound-at"]}
