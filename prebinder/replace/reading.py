"""Reads with the user's rights what decides about a replacement: everything, each time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from binder.health.published_sweeps import PublishedSweep
from binder.matching.matching import default_class
from binder.replacement.situation import Replicas, Situation
from binder.replacement.turn import parse_turn
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi, Listing
from kube.clock import Clock
from kube.decoding.decode import (
    MalformedObject,
    decode_namespace,
    decode_pod_record,
    decode_stateful_set,
    decoders,
    tolerant,
)
from kube.decoding.wire import Text, Wire
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import NAMESPACES, PODS, STATEFUL_SETS, WATCHED, Resource
from kube.objects.model import Claim, Pod, Record, value_of
from kube.objects.stateful_set import StatefulSet
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.errors import CommandError
from prebinder.health.sweep_reports import read_sweeps
from why.rendering.lines import warn

_STATEFUL_SET: Final = "StatefulSet"


class _Condition(Wire):
    type: Text = None
    status: Text = None


class _Conditions(Wire):
    conditions: list[_Condition] | None = None


class _Owner(Wire):
    kind: Text = None
    name: Text = None
    controller: bool | None = None


class _Meta(Wire):
    owner_references: list[_Owner] | None = None


class _Conditioned(Wire):
    """What says of a pod or a node whether it is ready, and of a pod what creates it again."""

    metadata: _Meta
    status: _Conditions = msgspec.field(default_factory=_Conditions)

    @property
    def is_ready(self) -> bool:
        conditions = self.status.conditions or ()
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of its controller; both empty without one."""
        owners = (owner for owner in self.metadata.owner_references or () if owner.controller)
        return next(((owner.kind or "", owner.name or "") for owner in owners), ("", ""))


_CONDITIONED: Final = msgspec.json.Decoder(_Conditioned)


@dataclass(slots=True)
class _Readiness:
    """Notes while a kind is listed which of its objects are ready."""

    ready: set[str] = field(default_factory=set)

    def noting(self, decode: Callable[[Raw], Record | None]) -> Callable[[Raw], Record | None]:
        def take(raw: Raw) -> Record | None:
            record = decode(raw)
            if record is not None and _CONDITIONED.decode(raw).is_ready:
                self.ready.add(record.key if isinstance(record, Pod) else record.name)
            return record

        return take


class SituationReader:
    """Reads the situation of one pod. Every method raises CommandError or KubeError."""

    def __init__(self, api: KubeApi, annotations: Annotations, clock: Clock, namespace: str, pod_name: str) -> None:
        self._api, self._annotations, self._clock = api, annotations, clock
        self._namespace, self._pod_name = namespace, pod_name
        self._sweeps_denied = False

    async def read(self) -> Situation:
        """Return what the API shows now."""
        namespace = decode_namespace(await self._api.get(NAMESPACES, self._namespace))
        raw_pod = await self._found(PODS, self._pod_name)
        owner, owner_name = ("", "") if raw_pod is None else _CONDITIONED.decode(raw_pod).owner
        owning = await self._set(owner, owner_name, exists=raw_pod is not None)
        readiness = {"Pod": _Readiness(), "Node": _Readiness()}
        snapshot = await self._snapshot(readiness)
        template = self._template(raw_pod, owning)
        replicas = None if owning is None else _replicas(owning, self._annotations)
        return Situation(
            snapshot=snapshot,
            now=self._clock.now(),
            namespace=self._namespace,
            namespace_uid=namespace.uid,
            pod_name=self._pod_name,
            template=template,
            next_claims=tuple(_next_claims(snapshot, template, replicas)),
            replicas=replicas,
            owner=f"{owner}/{owner_name}" if owner and owning is None else "",
            ready_pods=frozenset(readiness["Pod"].ready),
            ready_nodes=frozenset(readiness["Node"].ready),
            sweeps=await self._sweeps(),
            annotations=self._annotations,
        )

    async def _found(self, resource: Resource, name: str) -> Raw | None:
        try:
            return await self._api.get(resource, name, self._namespace)
        except NotFound:
            return None

    async def _set(self, owner: str, owner_name: str, *, exists: bool) -> StatefulSet | None:
        """Return the StatefulSet that creates the pod, by its owner or, if there is no pod, by its name."""
        if exists and owner != _STATEFUL_SET:
            return None
        stem, _, ordinal = self._pod_name.rpartition("-")
        name = owner_name if exists else stem if ordinal.isdecimal() and len(ordinal) < 10 else ""
        raw = await self._found(STATEFUL_SETS, name) if name else None
        if raw is None and not exists:
            raise CommandError(
                f'there is no pod "{self._pod_name}" in namespace {self._namespace}, and no StatefulSet that creates '
                "it; try --namespace"
            )
        return None if raw is None else decode_stateful_set(raw, self._annotations.prefix)

    async def _snapshot(self, readiness: Mapping[str, _Readiness]) -> Snapshot:
        decode, records = decoders(self._annotations.prefix), list[Record]()
        for resource in WATCHED:
            take: Callable[[Raw], Record | None] = tolerant(decode[resource.kind], _skip)
            if resource.kind in readiness:
                take = readiness[resource.kind].noting(take)
            listing: Listing[Record] = await self._api.list_all(resource, take)
            records += listing.items
        return snapshot_of(records, self._annotations.prefix)

    async def _sweeps(self) -> tuple[PublishedSweep, ...]:
        if self._sweeps_denied:
            return ()
        try:
            return tuple(await read_sweeps(self._api, self._annotations))
        except Forbidden:
            self._sweeps_denied = True
            warn("you are not permitted to list leases in all namespaces; no driver can prove that a volume is lost")
            return ()

    def _template(self, raw_pod: Raw | None, owning: StatefulSet | None) -> Pod:
        if raw_pod is not None:
            return decode_pod_record(raw_pod)
        pod = None if owning is None else _pod_to_come(owning, self._pod_name)
        if pod is None:
            raise CommandError(f"the pod template of StatefulSet {self._pod_name.rpartition('-')[0]} cannot be read")
        return pod


def _pod_to_come(owner: StatefulSet, name: str) -> Pod | None:
    """Return the pod that the set creates; None if its template cannot be read.

    Which generic ephemeral volumes it has is kept, not their claims' names: they come and go with the pod.
    """
    pod = owner.pod_of(int(name.rpartition("-")[2]))
    if pod is None or owner.pod is None:
        return None
    ephemeral = (each for each in owner.pod.claims if each.ephemeral)
    return replace(pod, uid=f"{name}-next", claims=(*pod.claims, *ephemeral))


def _replicas(owner: StatefulSet, annotations: Annotations) -> Replicas:
    return Replicas(
        owner.namespace,
        owner.name,
        owner.uid,
        owner.resource_version,
        first=owner.start,
        count=owner.replicas,
        ordered=owner.ordered,
        templates=owner.templates,
        turn=parse_turn(value_of(owner.annotations, annotations.replaces)),
    )


def _next_claims(snapshot: Snapshot, template: Pod, replicas: Replicas | None) -> list[Claim]:
    """Return the claims of the pod as they are created next: those of a StatefulSet from its templates."""
    fallback = default_class(snapshot.classes.values())
    ordinal = -1 if replicas is None else replicas.ordinal_of(template.name)
    from_templates = {
        key.partition("/")[2]: claim
        for claim in (replicas.templates if replicas is not None else ())
        if (key := replicas.claim_key(claim, ordinal) if replicas is not None else "")
    }
    claims: list[Claim] = []
    for used in template.claims:
        present = snapshot.claims.get(f"{template.namespace}/{used.name}")
        shape = from_templates.get(used.name, present)
        if shape is None or used.ephemeral:
            continue
        name = fallback.name if shape.storage_class is None and fallback is not None else shape.storage_class
        claims.append(replace(shape, name=used.name, storage_class=name, deleting=False, health=None))
    return claims


def _skip(error: MalformedObject) -> None:
    warn(f"skipped {error}")
