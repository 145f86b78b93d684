"""A volume that keeps the data of a deleted claim: whose it is, and how one claim, and no other, is given it.

Its claimRef is never removed whole: the next claim that fits would get the data, and overwrite it. Without its uid, or
with another claim's name, the claimRef is one that an administrator could have written: the volume is Available, and
kept for that claim (syncVolume in persistentvolume/pv_controller.go). Each patch tests the uid that was read, so that
it changes nothing that has changed since.
"""

import json
from typing import Any, Final

from kube.objects.model import Claim, ClaimReference, Volume
from kube.plain_text import shell
from why.causes.finding import Step
from why.facts.facts import Facts, Source

_PATH: Final = "/spec/claimRef"


def whose_data(volume: Volume, claim: Claim | None = None) -> str:
    """Return whose data the volume holds, for a user, or for this claim. Who may read the volume may read the name."""
    owner = volume.claim
    if owner is None:
        return "an unknown claim"
    if claim is not None and owner.key == claim.key:
        return "an earlier claim of the same name"
    other = (
        f", of another namespace than {claim.name}" if claim is not None and owner.namespace != claim.namespace else ""
    )
    return f"claim {owner.key}{other}"


def given_to(facts: Facts, volume: Volume, claim: Claim) -> Step:
    """Return how to give the volume and its data to this claim, and to no other."""
    assert volume.claim is not None
    if kept := _kept(facts, volume):
        return kept
    if volume.claim.key == claim.key and _is_of_earlier_namespace(facts, volume, volume.claim):
        return _look(
            volume,
            f"do not give it to this claim: namespace {claim.namespace} was created again after the volume was "
            "released, so the data is that of an earlier user of the name",
        )
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name}
    return Step(
        shell(
            "kubectl patch pv {} --type=json -p {}",
            volume.name,
            _patch(volume, {"op": "replace", "path": _PATH, "value": reference}),
        ),
        f"gives this claim the volume with the data of {whose_data(volume, claim)}: only if that is what you want, or "
        f"after it was wiped.{_to_check(facts, volume, claim.namespace)}",
    )


def given_back(facts: Facts, volume: Volume, owner: ClaimReference) -> Step:
    """Return how the volume is kept for the next claim with the name of the one that was deleted."""
    if kept := _kept(facts, volume):
        return kept
    namesake = facts.snapshot.claims.get(owner.key)
    if namesake is not None and namesake.volume_name not in {"", volume.name}:
        return _look(
            volume,
            f"claim {owner.key} has volume {namesake.volume_name}: without a uid in its claimRef this one would go to "
            f"the next claim of that name, with outdated data. Copy what is needed; {_OTHER_CLAIM}",
        )
    if _is_of_earlier_namespace(facts, volume, owner):
        return _look(
            volume,
            f"namespace {owner.namespace} was created again after the volume was released, so the data is that of an "
            f"earlier user of the name: {_OTHER_CLAIM}",
        )
    unread = "" if facts.has(Source.CLAIMS) else f" See first that no claim {owner.key} has another volume."
    return Step(
        shell(
            "kubectl patch pv {} --type=json -p {}",
            volume.name,
            _patch(volume, {"op": "remove", "path": f"{_PATH}/uid"}),
        ),
        f"keeps it, with that data, for a claim that is called {owner.key}, and for no other."
        f"{_to_check(facts, volume, owner.namespace)}{unread} T{_OTHER_CLAIM[1:]}",
    )


_OTHER_CLAIM: Final = "to give it to another claim, replace namespace and name in its claimRef, and leave out the uid"


def _kept(facts: Facts, volume: Volume) -> Step | None:
    """Return the step for a volume that was replaced on purpose: patched by hand, it would mix up replicas' disks."""
    if not facts.annotations.pin_keys(volume):
        return None
    return _look(
        volume,
        "it was replaced by another volume and keeps the old data: do not change its claimRef by hand; "
        "`pvc-prebinder replace --give-back` for its pod returns it",
    )


def _look(volume: Volume, note: str) -> Step:
    return Step(shell("kubectl get pv {} -o yaml", volume.name), note)


def _patch(volume: Volume, change: dict[str, Any]) -> str:
    uid = "" if volume.claim is None else volume.claim.uid
    expected = [{"op": "test", "path": f"{_PATH}/uid", "value": uid}] if uid else []
    return json.dumps([*expected, change], separators=(",", ":"))


def _is_of_earlier_namespace(facts: Facts, volume: Volume, owner: ClaimReference) -> bool:
    """Whether the namespace of the deleted claim was created after the volume was released."""
    created, released = _times(facts, volume, owner.namespace)
    return created is not None and released is not None and created > released


def _to_check(facts: Facts, volume: Volume, namespace: str) -> str:
    is_own = volume.claim is not None and volume.claim.namespace == namespace
    if not is_own or None not in _times(facts, volume, namespace):
        return ""
    return f" See first that namespace {namespace} was not created again since: the data is of its tenant at that time."


def _times(facts: Facts, volume: Volume, namespace: str) -> tuple[Any, Any]:
    """Return when the namespace was created and when the volume was released, as far as that is known."""
    created = facts.namespaces_since.get(namespace) if facts.has(Source.NAMESPACES) else None
    details = facts.volumes.get(volume.name)
    return created, None if details is None else details.since
