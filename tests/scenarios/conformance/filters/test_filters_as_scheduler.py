"""Of hundreds of random pods our filters leave the very nodes that those of a real kube-scheduler leave.

The pods require something of nodes and of other pods; what they require of volumes is test_match_as_scheduler's.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import pytest
import pytest_asyncio

from binder.matching.index import VolumeIndex
from binder.model.view import View
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from kube.objects.model import Namespace, Pod, Record
from kube.store.store import snapshot_of
from scheduler.cycle.cycle import feasible, judge
from scheduler.plugins.registry import default_profile
from scheduler.state.cluster import view_of
from tests.builders import decoded
from tests.scenarios.conformance.filters.demanding_pods import Puzzle, nodes, puzzle
from tests.scenarios.conformance.quiet_cluster import dumped, unschedulable_message
from tests.scenarios.conformance.recording_extender import Recording, recording_scheduler
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually

SEED: Final = 20261122
COUNT: Final = 250
ASKED: Final = "asked"


@pytest_asyncio.fixture(loop_scope="session")
async def quiet() -> AsyncIterator[DevCluster]:
    """A cluster of its own in which nothing else writes: what kube-scheduler sees is what is in the dump."""
    async with DevCluster(Options(scheduler=False, kwok=False)) as cluster:
        cluster.controller_manager.pause()
        yield cluster


@pytest.mark.asyncio(loop_scope="session")
async def test_our_filters_and_the_scheduler_s_leave_the_same_nodes(quiet: DevCluster) -> None:
    puzzles = [puzzle(number, SEED, ASKED) for number in range(COUNT)]
    async with Admin(quiet) as admin:
        await lay_out(admin, puzzles)
        ours = await left_by_us(admin)
        async with recording_scheduler(quiet, ASKED) as recording:
            await eventually(
                lambda: untried(admin, recording, ours), lambda names: not names, "all pods were tried", 120
            )
            wrong = {
                name: {"ours": sorted(left), "theirs": sorted(recording.passed.get(name, set()))}
                for name, left in ours.items()
                if left != recording.passed.get(name, set())
            }
            assert wrong == {}, await described(admin, wrong)
    counts = {len(left) for left in ours.values()}
    assert {0, 1, 2, 3, 4} <= counts, "the puzzles are too much alike to show anything"


async def lay_out(admin: Admin, puzzles: Iterable[Puzzle]) -> None:
    """Create everything but the waiting pods, give it the states that it has in the puzzles, then create these."""
    puzzles = list(puzzles)
    made = nodes(puzzles)
    await admin.create_at_once(made)
    async with asyncio.TaskGroup() as tasks:
        for node in made:
            # Every new node is tainted as not ready.
            body = {"spec": {"taints": node["spec"]["taints"]}}
            tasks.create_task(admin.patch("Node", node["metadata"]["name"], body))
    spaces = [namespace for each in puzzles for namespace in each.namespaces]
    await admin.create_at_once(spaces)
    await admin.create_at_once(_account(namespace["metadata"]["name"]) for namespace in spaces)
    await admin.create_at_once(pod for each in puzzles for pod in each.there)
    async with asyncio.TaskGroup() as tasks:
        for each in puzzles:
            for pod in each.finished:
                name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
                done = {"status": {"phase": "Succeeded"}}
                tasks.create_task(admin.patch("Pod", name, done, namespace, subresource="status"))
            for pod in each.leaving:
                name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
                tasks.create_task(admin.delete("Pod", name, namespace, grace_seconds=3600))
    await admin.create_at_once(each.waiting for each in puzzles)


def _account(namespace: str) -> Document:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "default"}}


async def left_by_us(admin: Admin) -> dict[str, set[str]]:
    """Return the nodes that pass every filter of ours, by the name of the waiting pod."""
    spaces = [{"apiVersion": "v1", "kind": "Namespace", **item} for item in await admin.list("Namespace")]
    records = [decoded(document) for document in [*(await dumped(admin))["items"], *spaces]]
    known: list[Record] = [record for record in records if record is not None]
    labels = {record.name: record.labels for record in known if isinstance(record, Namespace)}
    storage = View(snapshot_of(known), VolumeIndex())
    cluster, profile = view_of(storage, datetime.now(UTC), labels), default_profile(ASKED)
    waiting = [record for record in known if isinstance(record, Pod) and not record.node_name]
    return {
        pod.name: {node.name for node in feasible(judge(pod, cluster, profile), cluster, profile)} for pod in waiting
    }


async def untried(admin: Admin, recording: Recording, ours: Mapping[str, object]) -> set[str]:
    """Return the pods for which kube-scheduler has found neither nodes nor a reason why there are none."""
    rejected = {pod["metadata"]["name"] for pod in await admin.list("Pod") if unschedulable_message(pod)}
    return set(ours) - rejected - set(recording.passed)


async def described(admin: Admin, wrong: Mapping[str, object]) -> str:
    """Return what is to be known of the first pods that were wrong."""
    lines = [f"{len(wrong)} of {COUNT}"]
    for name in list(wrong)[:3]:
        pod = await admin.get("Pod", name, name)
        beside = [each for word in (name, f"{name}-other") for each in await admin.list("Pod", word)]
        lines += [
            f"{name}: {wrong[name]}",
            unschedulable_message(pod),
            str(pod["spec"]),
            str(pod["metadata"]["labels"]),
        ]
        lines += [f"  {each['metadata']} {each['spec']}" for each in beside]
    return "\n".join(lines)
