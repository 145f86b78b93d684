"""While the PV controller binds a claim, no write of ours comes between its own: judged by the audit log.

Its next write would be answered 409 and the claim would wait for another turn, at 20 requests a second.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from bench.control_plane.audit import CONFLICT, EVERYBODY, Request, RequestKind, counts, entries, write_policy
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import apply_manifests, start_controller

PAIRS = 20
STATUSES = ("persistentvolumes/status", "persistentvolumeclaims/status")
MANAGER = "controller manager"
Counted = Callable[[], Mapping[RequestKind, int]]


@pytest_asyncio.fixture
async def audited(tmp_path: Path) -> AsyncIterator[tuple[World, Counted]]:
    """A world on a control plane of its own, and the requests to its API server so far."""
    log = tmp_path / "audit.log"
    flags = {"kube-apiserver": [f"--audit-log-path={log}", f"--audit-policy-file={write_policy(log, EVERYBODY)}"]}
    async with DevCluster(Options(flags=flags)) as cluster, Admin(cluster) as admin:
        await cluster.add_nodes([NodeSpec(f"node-{n}", "zone-a", pods=PAIRS) for n in range(2)])
        await apply_manifests(cluster)
        world = World(cluster, admin)
        await world.open()
        yield world, lambda: counts(filter(counted_here, entries(log)))


def counted_here(request: Request) -> bool:
    """Of the controller manager only the PV controller: from Kubernetes 1.37 another one writes claims' status, too."""
    return request.agent != MANAGER or request.user_agent.endswith("/persistent-volume-binder")


@pytest.mark.timeout(300)
async def test_the_pv_controller_writes_each_status_once(audited: tuple[World, Counted]) -> None:
    """In mode annotate kube-scheduler also gives volumes to other claims than those that had them as a hint."""
    world, counted = audited
    controller = await start_controller(world)
    for mode in ("prebind", "annotate"):
        disks = await world.storage_class(mode, mode)
        await world.volumes(disks, *(world.volume(f"{mode}-{n}", disks, zone="zone-a") for n in range(PAIRS)))
        names = [f"{mode}-{number}" for number in range(PAIRS)]
        pods = (world.pod_documents(name, {name: claim_spec(disks)}, gated=True) for name in names)
        await world.admin.create_at_once([document for documents in pods for document in documents])
        await settled(world, names, *names)
    late = {str(request): count for request, count in counted().items() if request.code == CONFLICT}
    theirs = [request for request in counted() if request.agent == MANAGER and request.subject in STATUSES]
    assert {request.subject for request in theirs} == set(STATUSES)
    assert [request.subject for request in theirs if request.code == CONFLICT] == [], late
    await controller.stop()
