"""What must hold in any cluster at any time, checked on the API's own JSON and independently of the product.

Used by tests against the in-memory API and against a real control plane alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

Object = Mapping[str, Any]
PREFIX = "scheduler.cloud.example/"


def violations(
    volumes: Iterable[Object],
    claims: Iterable[Object],
    now: datetime,
    grace: timedelta = timedelta(seconds=5),
    prefix: str = PREFIX,
) -> list[str]:
    """Return a sentence for each violation; `grace` is how long after its expiry a reservation may still exist."""
    by_name = {volume["metadata"]["name"]: volume for volume in volumes}
    by_key = {f"{claim['metadata']['namespace']}/{claim['metadata']['name']}": claim for claim in claims}
    return [
        *_volumes_with_two_claims(by_key),
        *_claims_on_two_volumes(by_name, by_key, prefix),
        *_contradictions(by_name, by_key),
        *_left_over(by_name | by_key, now - grace, prefix),
    ]


def _volumes_with_two_claims(claims: Mapping[str, Object]) -> Iterable[str]:
    holders = defaultdict(list)
    for key, claim in claims.items():
        if name := claim["spec"].get("volumeName"):
            holders[name].append(key)
    return (f"volume {name} has claims {keys}" for name, keys in holders.items() if len(keys) > 1)


def _claims_on_two_volumes(volumes: Mapping[str, Object], claims: Mapping[str, Object], prefix: str) -> Iterable[str]:
    for key, claim in claims.items():
        uid = claim["metadata"]["uid"]
        committed = [name for name, volume in volumes.items() if _refers_to(volume, key, uid)]
        if len(committed) > 1:
            yield f"claim {key} has volumes {committed}"
        reserved = [
            name
            for name, volume in volumes.items()
            if _annotation(volume, "reserved-for", prefix) == key
            and _annotation(volume, "reserved-for-uid", prefix) == uid
        ]
        if len(reserved) > 1:
            yield f"claim {key} has reservations of {reserved}"


def _contradictions(volumes: Mapping[str, Object], claims: Mapping[str, Object]) -> Iterable[str]:
    for key, claim in claims.items():
        name = claim["spec"].get("volumeName")
        volume = volumes.get(name) if name else None
        if volume is None:
            continue
        if "claimRef" in volume["spec"] and not _refers_to(volume, key, claim["metadata"]["uid"]):
            yield f"claim {key} has volume {name}, which is somebody else's"


def _left_over(objects: Mapping[str, Object], latest: datetime, prefix: str) -> Iterable[str]:
    for key, document in objects.items():
        expires = _annotation(document, "expires-at", prefix)
        if expires is None:
            if any(_annotation(document, word, prefix) is not None for word in ("reserved-for", "reserved-volume")):
                yield f"{key} is reserved for ever"
        elif datetime.fromisoformat(expires) < latest:
            yield f"{key} is still reserved, since {expires}"


def _refers_to(volume: Object, claim_key: str, claim_uid: str) -> bool:
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    named = f"{reference.get('namespace')}/{reference.get('name')}" == claim_key
    return named and reference.get("uid", claim_uid) == claim_uid


def _annotation(document: Object, word: str, prefix: str) -> str | None:
    value = document["metadata"].get("annotations", {}).get(prefix + word)
    return None if value is None else str(value)
