"""Rules about requests: what may be deleted, no write is unconditional, and controllers write with the Lease only."""

from collections.abc import Iterable, Iterator
from typing import Final

from soak.judge.history import Change
from soak.judge.rules import Violation
from soak.judge.writes import Party, Write

LEASES: Final = {
    Party.CONTROLLER: "pvc-prebinder-system/pvc-prebinder",
    Party.SCHEDULER: "pvc-prebinder-system/pvc-prebinder-scheduler",
}
MAX_SECONDS_WITHOUT_RENEWAL: Final = 16.0
"""The Lease's duration and a second for the recorder: no process may write on a Lease that others could have
acquired.
"""
_BINDING: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
_UNFENCED: Final = frozenset({"Lease", "events", "selfsubjectaccessreviews", "selfsubjectreviews"})


def judge_request(write: Write) -> Iterator[Violation]:
    """Check a request, whatever its response."""
    if write.party is Party.OTHER:
        return
    if write.verb.startswith("delete") or write.subresource == "eviction":
        yield from _judge_deletion(write)
    conditional = _BINDING | ({"Pod"} if write.party is Party.CONTROLLER else frozenset())
    # Unauthorised requests are answered before the body is read: the log has none.
    if write.kind in conditional and write.verb in {"patch", "update"} and write.code not in {401, 403}:
        metadata = write.body.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
            yield Violation("every write is conditional", f"it names no resourceVersion: {write}", (write.revision,))


def _judge_deletion(write: Write) -> Iterator[Violation]:
    """Only `replace` deletes, a claim, and evicts, a pod: exactly the version that it has read."""
    kind = {"delete": "PersistentVolumeClaim", "create": "Pod"}.get(write.verb)
    if write.party is not Party.REPLACE or write.kind != kind:
        yield Violation("nothing is deleted", f"requested by {write.party}: {write}", (write.revision,))
    options = write.body if write.verb == "delete" else write.body.get("deleteOptions")
    known = options.get("preconditions") if isinstance(options, dict) else None
    if write.code not in {401, 403} and not (known and known.get("uid") and known.get("resourceVersion")):
        yield Violation("every write is conditional", f"it names no version: {write}", (write.revision,))


def identities(writes: Iterable[Write]) -> dict[str, str]:
    """Return which credential has which identity, by what each wrote into a Lease."""
    known: dict[str, str] = {}
    for write in writes:
        holder = (write.body.get("spec") or {}).get("holderIdentity") if write.kind == "Lease" else None
        if holder and write.party.has_lease and write.code < 300:
            known.setdefault(write.credential, holder)
    return known


def judge_fencing(
    change: Change, write: Write, holders: dict[str, tuple[str, float]], known: dict[str, str]
) -> Iterator[Violation]:
    """Check whether the author of a change held the Lease at that revision."""
    if not write.party.has_lease or write.kind in _UNFENCED:
        return
    holder, renewed = holders.get(LEASES[write.party], ("", 0.0))
    me = known.get(write.credential, "a process that never held it")
    if holder != me:
        text = f"{change.kind} {change.key} written by {me} while {holder or 'nobody'} held the Lease"
        yield Violation("no write without the Lease", text, (change.revision,))
    elif write.received - renewed > MAX_SECONDS_WITHOUT_RENEWAL:
        age = write.received - renewed
        text = f"{change.kind} {change.key} written by {me} {age:.1f} s after it last renewed the Lease"
        yield Violation("no write without the Lease", text, (change.revision,))
