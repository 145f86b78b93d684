"""Reads the storage of a cluster and checks what the controller can do for it. Nothing is changed."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec import Raw

from binder.health.published_sweeps import PublishedSweep
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.decoding.decode import MalformedObject, decode_class, decode_volume
from kube.errors import Forbidden
from kube.objects.api_resource import STORAGE_CLASSES, VOLUMES
from prebinder.preflight.class_outlook import class_checks, outlooks
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import driver_checks
from prebinder.reports.sweep_reports import read_sweeps

R = TypeVar("R")


async def storage_checks(
    api: KubeApi, annotations: Annotations, responding: Collection[str], now: datetime
) -> list[Check]:
    """Return for each StorageClass whether the controller helps its claims, and for each driver who probes its volumes.

    `responding` are drivers that are checked elsewhere.
    """
    prefix = annotations.prefix
    try:
        classes = await api.list_all(STORAGE_CLASSES, _lenient(partial(decode_class, own_prefix=prefix)))
        volumes = await api.list_all(VOLUMES, _lenient(partial(decode_volume, own_prefix=prefix)))
    except Forbidden as error:
        return [Check("StorageClasses", CheckState.NOTE, "not known", error.message)]
    sweeps = await _sweeps(api, annotations)
    return [
        *class_checks(outlooks(classes.items, volumes.items, annotations)),
        *driver_checks(volumes.items, responding, sweeps, now),
    ]


async def _sweeps(api: KubeApi, annotations: Annotations) -> Sequence[PublishedSweep] | None:
    try:
        return await read_sweeps(api, annotations)
    except Forbidden:
        return None


def _lenient(decode: Callable[[Raw], R]) -> Callable[[Raw], R | None]:
    def take(raw: Raw) -> R | None:
        try:
            return decode(raw)
        except MalformedObject:
            return None

    return take
