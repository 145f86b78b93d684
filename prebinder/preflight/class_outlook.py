"""What the controller does for the claims of each StorageClass, and why not more. Pure rules."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from binder.model.decision import Mode
from binder.reservation.contract import Annotations
from kube.objects.model import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, StorageClass, Volume, value_of
from prebinder.preflight.doctor_checks import Check, CheckState

_ELSEWHERE = "`why`, `health`, the csi-agent and the standalone scheduler work for them"


@dataclass(frozen=True, slots=True)
class Outlook:
    """A class. `left_alone` is why the controller reserves nothing for its claims; None if it does."""

    storage_class: str
    found: str
    meaning: str
    left_alone: Reason | None = None


@dataclass(frozen=True, slots=True)
class PoolReports:
    """What is known of the storage from which a class's volumes are made: how many pools report their free capacity,
    None if that could not be read; and whether a volume that exists is accessible from a part of the nodes only.
    """

    pools: int | None = None
    is_local: bool = False


def outlook_of(storage_class: StorageClass, available: int, annotations: Annotations, made: PoolReports) -> Outlook:
    """Evaluate a class with so many Available volumes, which only static ones are."""
    name = storage_class.name
    if value_of(storage_class.annotations, annotations.mode) == Mode.OFF:
        return Outlook(name, "mode off", "not handled, because of its annotation", Reason.MODE_OFF)
    if storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER:
        meaning = f"not handled: Kubernetes binds its claims before there is a pod; {_ELSEWHERE}"
        return Outlook(name, f"binding mode {storage_class.binding_mode or 'missing'}", meaning, Reason.IMMEDIATE_CLAIM)
    if storage_class.provisioner == NO_PROVISIONER:
        return Outlook(name, f"static, {volumes_text(available)} Available", "its volumes are reserved")
    if value_of(storage_class.annotations, annotations.mode) == Mode.PROVISION:
        meaning = "for a gated pod one node is selected, where the sum of its new volumes fits"
        return Outlook(name, f"dynamic, mode provision{_reported(made)}", meaning)
    if available:
        meaning = "the Available volumes are reserved; the provisioner creates the others"
        return Outlook(name, f"dynamic, {volumes_text(available)} Available", meaning)
    meaning = f"not handled: {storage_class.provisioner} creates its volumes, none exists to reserve; {_gain(made)}"
    return Outlook(name, f"dynamic{_reported(made)}", meaning, Reason.DYNAMIC_CLASS)


def _reported(made: PoolReports) -> str:
    return f", {made.pools} pool{'' if made.pools == 1 else 's'} reported" if made.pools else ""


def _gain(made: PoolReports) -> str:
    """Return what the class would have of mode provision (docs/provision.md)."""
    if made.pools:
        return "mode provision would place all new volumes of a gated pod together where their sum fits, or none"
    if made.is_local:
        return "mode provision would select one place for all new volumes of a gated pod; no free capacity is reported"
    return _ELSEWHERE


def outlooks(
    classes: Iterable[StorageClass],
    volumes: Collection[Volume],
    annotations: Annotations,
    pools: Mapping[str, int] | None = None,
) -> Sequence[Outlook]:
    """Evaluate all classes, sorted by name. `pools`: class -> its reports of free capacity, None if not read."""
    available = Counter(class_of(volume) for volume in volumes if volume.phase == "Available")
    local = {class_of(volume) for volume in volumes if volume.node_affinity is not None}
    ordered = sorted(classes, key=lambda storage_class: storage_class.name)
    return [
        outlook_of(
            each,
            available[each.name],
            annotations,
            PoolReports(None if pools is None else pools.get(each.name, 0), each.name in local),
        )
        for each in ordered
    ]


def volumes_text(count: int) -> str:
    """Return `1 volume`, or `2 volumes`."""
    return f"{count} volume{'' if count == 1 else 's'}"


def class_checks(class_outlooks: Sequence[Outlook]) -> Iterator[Check]:
    """Return the result as checks; a note if there is no class whose volumes can be reserved."""
    for outlook in class_outlooks:
        state = CheckState.OK if outlook.left_alone is None else CheckState.NOTE
        yield Check(f"StorageClass {outlook.storage_class}", state, outlook.found, outlook.meaning)
    if all(outlook.left_alone is not None for outlook in class_outlooks):
        meaning = f"the controller reserves nothing in this cluster; {_ELSEWHERE}"
        nothing = "none with static volumes or mode provision, and WaitForFirstConsumer"
        yield Check("StorageClasses", CheckState.NOTE, nothing, meaning)
