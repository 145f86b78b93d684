"""Worlds in which each of the controller's loops has something to write."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from binder.model.decision import Mode
from csi.health.verdict import HealthState
from tests.binder.world import World, reservation
from tests.fakes.objects import claim_object, pod_object, volume_object


def three_claims(mode: Mode = Mode.ANNOTATE) -> World:
    """A gated pod, and a volume for each of its claims."""
    world = World(mode)
    world.put(*(volume_object(f"pv-{number}", zone="a") for number in (1, 2, 3)))
    world.put(*(claim_object(f"data-{number}") for number in (1, 2, 3)))
    world.put(pod_object("web", ["data-1", "data-2", "data-3"], gated=True))
    return world


def begun_bind() -> World:
    """kube-scheduler has committed a volume, and mode complete finishes the bind."""
    world = World(Mode.COMPLETE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    claim = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    uid = "uid-persistentvolumeclaims-default/data"
    world.put(volume_object("pv-1", claim={**claim, "uid": uid}))
    return world


def expired() -> World:
    """Reservations of a former leader that have expired."""
    world = World(Mode.PREBIND)
    for number, claim in enumerate(("red", "blue"), 1):
        world.put(claim_object(claim), volume_object(f"pv-{number}", annotations=reservation(claim, minutes=-20)))
    return world


def unhealthy() -> World:
    """A reserved volume that has become unhealthy, and Available ones that have."""
    world = World(Mode.PREBIND, quarantine=True, max_share=1.0)
    world.put(*(volume_object(f"pv-{number}") for number in (1, 2, 3)))
    world.put(volume_object("pv-4", annotations=reservation("data")), claim_object("data"))
    world.observe(HealthState.DATA_LOSS, "pv-1", "pv-2", "pv-3", "pv-4")
    return world


STORIES: Final[Mapping[str, Callable[[], World]]] = {
    **{f"three-claims-{mode}": partial(three_claims, mode) for mode in (Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE)},
    "begun-bind": begun_bind,
    "expired": expired,
    "unhealthy": unhealthy,
}
