"""What the controller does for the claims of each StorageClass, and why not more. Pure rules."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


def outlook_of(storage_class: StorageClass, available: int, annotations: Annotations) -> Outlook:
    """Evaluate a class with so many Available volumes, which only static ones are."""
    name = storage_class.name
    if value_of(storage_class.annotations, annotations.mode) == Mode.OFF:
        return Outlook(name, "mode off", "not handled, because of its annotation", Reason.MODE_OFF)
    if storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER:
        meaning = f"not handled: Kubernetes binds its claims before there is a pod; {_ELSEWHERE}"
        return Outlook(name, f"binding mode {storage_class.binding_mode or 'missing'}", meaning, Reason.IMMEDIATE_CLAIM)
    if storage_class.provisioner == NO_PROVISIONER:
        return Outlook(name, f"static, {volumes_text(available)} Available", "its volumes are reserved")
    if available:
        meaning = "the Available volumes are reserved; the provisioner creates the others"
        return Outlook(name, f"dynamic, {volumes_text(available)} Available", meaning)
    meaning = f"not handled: {storage_class.provisioner} creates its volumes, none exists to reserve; {_ELSEWHERE}"
    return Outlook(name, "dynamic", meaning, Reason.DYNAMIC_CLASS)


def outlooks(classes: Iterable[StorageClass], volumes: Iterable[Volume], annotations: Annotations) -> Sequence[Outlook]:
    """Evaluate all classes, sorted by name."""
    available = Counter(class_of(volume) for volume in volumes if volume.phase == "Available")
    ordered = sorted(classes, key=lambda storage_class: storage_class.name)
    return [outlook_of(storage_class, available[storage_class.name], annotations) for storage_class in ordered]


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
        yield Check("StorageClasses", CheckState.NOTE, "none with static volumes and WaitForFirstConsumer", meaning)
