"""Reads the storage of a cluster and checks what the controller can do for it. Nothing is changed."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from binder.health.published_sweeps import PublishedSweep
from binder.model.decision import Mode
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.decoding.decode import MalformedObject, decode_capacity, decode_class, decode_volume, tolerant
from kube.errors import Forbidden
from kube.objects.api_resource import CAPACITIES, STORAGE_CLASSES, VOLUMES
from kube.objects.model import StorageClass, Volume, value_of
from prebinder.health.sweep_reports import read_sweeps
from prebinder.preflight.autoscaler_checks import autoscalers_in, check_autoscalers
from prebinder.preflight.class_outlook import class_checks, outlooks
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import driver_checks
from prebinder.preflight.installation_checks import InUse


@dataclass(frozen=True, slots=True)
class ClusterStorage:
    """The StorageClasses and volumes of a cluster. `pools`: class -> how many pools report their free capacity, None if
    the user may not read that.
    """

    classes: Sequence[StorageClass]
    volumes: Sequence[Volume]
    pools: Mapping[str, int] | None = None

    def in_use(self, annotations: Annotations) -> InUse:
        """Return what the StorageClasses need of a controller by their annotations; mode `off` needs nothing."""
        written = {value_of(each.annotations, annotations.mode) for each in self.classes}
        modes = frozenset(mode for mode in Mode if mode.value in written and mode is not Mode.OFF)
        return InUse(modes, new_nodes=any(map(annotations.joins_new_nodes, self.classes)))


async def read_storage(api: KubeApi, annotations: Annotations) -> ClusterStorage:
    """Return the storage of a cluster. Raises Forbidden if the user may not read it."""
    prefix = annotations.prefix
    classes = await api.list_all(STORAGE_CLASSES, tolerant(partial(decode_class, own_prefix=prefix), _skip))
    volumes = await api.list_all(VOLUMES, tolerant(partial(decode_volume, own_prefix=prefix), _skip))
    return ClusterStorage(classes.items, volumes.items, await _pools(api))


async def _pools(api: KubeApi) -> Mapping[str, int] | None:
    try:
        reports = await api.list_all(CAPACITIES, tolerant(decode_capacity, _skip))
    except Forbidden:
        return None
    return Counter(report.storage_class for report in reports.items if report.node_topology is not None)


async def storage_checks(
    api: KubeApi, storage: ClusterStorage, annotations: Annotations, responding: Collection[str], now: datetime
) -> list[Check]:
    """Return for each StorageClass whether the controller helps its claims, and for each driver who probes its volumes.

    `responding` are drivers that are checked elsewhere.
    """
    sweeps, autoscalers = await _sweeps(api, annotations), await autoscalers_in(api)
    return [
        *class_checks(outlooks(storage.classes, storage.volumes, annotations, storage.pools)),
        *check_autoscalers(autoscalers, storage.classes, annotations),
        *driver_checks(storage.volumes, responding, sweeps, now),
    ]


def unknown_storage(error: Forbidden) -> Check:
    """Return the line of a user who may not read classes and volumes."""
    return Check("StorageClasses", CheckState.NOTE, "not known", error.message)


def _skip(_: MalformedObject) -> None:
    """Of a malformed object nothing can be checked."""


async def _sweeps(api: KubeApi, annotations: Annotations) -> Sequence[PublishedSweep] | None:
    try:
        return await read_sweeps(api, annotations)
    except Forbidden:
        return None
