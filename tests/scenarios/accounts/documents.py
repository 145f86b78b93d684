"""The Leases, Events, Bindings and Evictions that the attempts create."""

from collections.abc import Mapping
from typing import Any, Final

from kube.leaderelection.lease import LeaseTiming
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM

HOLDER: Final = "pvc-prebinder-6f7c_00000000-0000-4000-8000-000000000000"
NOW: Final = "2026-01-01T00:00:00.000000Z"
HELD: Final = {
    "holderIdentity": HOLDER,
    "leaseDurationSeconds": int(LeaseTiming().duration),
    "leaseTransitions": 0,
    "acquireTime": NOW,
    "renewTime": NOW,
}


def lease(name: str, metadata: Mapping[str, Any] | None = None, namespace: str = SYSTEM, **spec: Any) -> Document:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, **(metadata or {})},
        "spec": {**HELD, **spec},
    }


def event(world: World, name: str, controller: str, **more: Any) -> Document:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": world.namespace},
        "eventTime": NOW,
        "reportingController": controller,
        "reportingInstance": "a",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": world.namespace},
        "type": "Normal",
        "reason": "Killing",
        "action": "Killing",
        "note": "Stopping container",
        **more,
    }


def binding(world: World, name: str, **metadata: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": world.namespace, "name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


def eviction(world: World, name: str, **options: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": world.namespace, "name": name},
        "deleteOptions": options,
    }
