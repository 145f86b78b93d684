"""Reads the storage of a cluster and checks what the controller can do for it. Nothing is changed."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from binder.health.published_sweeps import PublishedSweep
from binder.model.decision import Mode
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.decoding.decode import MalformedObject, decode_class, decode_volume, tolerant
from kube.errors import Forbidden
from kube.objects.api_resource import STORAGE_CLASSES, VOLUMES
from kube.objects.model import value_of
from prebinder.health.sweep_reports import read_sweeps
from prebinder.preflight.class_outlook import class_checks, outlooks
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import driver_checks


async def storage_checks(
    api: KubeApi, annotations: Annotations, responding: Collection[str], now: datetime
) -> list[Check]:
    """Return for each StorageClass whether the controller helps its claims, and for each driver who probes its volumes.

    `responding` are drivers that are checked elsewhere.
    """
    prefix = annotations.prefix
    try:
        classes = await api.list_all(STORAGE_CLASSES, tolerant(partial(decode_class, own_prefix=prefix), _skip))
        volumes = await api.list_all(VOLUMES, tolerant(partial(decode_volume, own_prefix=prefix), _skip))
    except Forbidden as error:
        return [Check("StorageClasses", CheckState.NOTE, "not known", error.message)]
    sweeps = await _sweeps(api, annotations)
    return [
        *class_checks(outlooks(classes.items, volumes.items, annotations)),
        *driver_checks(volumes.items, responding, sweeps, now),
    ]


async def class_modes(api: KubeApi, annotations: Annotations) -> list[Mode]:
    """Return the modes that StorageClasses have by annotation; none if the user may not read them."""
    try:
        classes = await api.list_all(
            STORAGE_CLASSES, tolerant(partial(decode_class, own_prefix=annotations.prefix), _skip)
        )
    except Forbidden:
        return []
    written = {value_of(each.annotations, annotations.mode) for each in classes.items}
    return [mode for mode in Mode if mode.value in written and mode is not Mode.OFF]


def _skip(_: MalformedObject) -> None:
    """Of a malformed object nothing can be checked."""


async def _sweeps(api: KubeApi, annotations: Annotations) -> Sequence[PublishedSweep] | None:
    try:
        return await read_sweeps(api, annotations)
    except Forbidden:
        return None
