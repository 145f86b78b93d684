"""In random crowds the very pods are evicted that a real kube-scheduler evicts, and the same node cleared.

Where kube-scheduler would exceed a disruption budget, no pod is evicted.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pytest
import pytest_asyncio

from binder.matching.index import VolumeIndex
from binder.model.view import View
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from kube.objects.model import Pod, Volume
from kube.rules.disruption import DisruptionBudget
from kube.store.store import snapshot_of
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.plugins.registry import default_profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption, Preemptor
from scheduler.state.cluster import view_of
from tests.builders import decoded
from tests.scenarios.conformance.full_nodes import Crowd, crowd, priority_classes
from tests.scenarios.conformance.quiet_cluster import dumped, unschedulable_message
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually

SEED: Final = 20261121
COUNT: Final = 80
NAMESPACE: Final = "crowds"
ASKED: Final = "asked"


@dataclass(frozen=True)
class Outcome:
    """What became of a waiting pod: `node` is nominated, empty when none is. `placed`: it got in as it was."""

    node: str = ""
    victims: frozenset[str] = frozenset()
    placed: bool = False


@pytest_asyncio.fixture(loop_scope="session")
async def quiet() -> AsyncIterator[DevCluster]:
    """A cluster of its own in which nothing else writes: what kube-scheduler sees is what is in the dump."""
    async with DevCluster(Options(scheduler=False, kwok=False)) as cluster:
        await cluster.create_namespace(NAMESPACE)
        cluster.controller_manager.pause()
        yield cluster


@pytest.mark.asyncio(loop_scope="session")
async def test_the_scheduler_evicts_the_same_pods(quiet: DevCluster) -> None:
    crowds = [crowd(number, SEED, NAMESPACE, ASKED) for number in range(COUNT)]
    async with Admin(quiet) as admin:
        await admin.create_at_once(priority_classes())
        await lay_out(admin, crowds)
        records = await recorded(admin)
        ours = outcomes(records)
        settings = {"clientConnection": {"qps": 1000, "burst": 1000}}
        scheduler = await quiet.start_scheduler(ASKED, settings)
        budgets = Budgets(record for record in records if isinstance(record, DisruptionBudget))
        try:
            await eventually(lambda: disagreements(admin, ours, budgets), lambda wrong: not wrong, "we agree", 90)
        finally:
            await scheduler.stop()
    preempted = [outcome for outcome in ours.values() if outcome.victims]
    assert len(preempted) > COUNT / 4, "the crowds are too much alike to show anything"
    assert {1, 2, 3} <= {len(outcome.victims) for outcome in preempted}


async def lay_out(admin: Admin, crowds: Iterable[Crowd]) -> None:
    """Create everything, and give it the states that it has in the crowds."""
    nodes = [node for crowd in crowds for node in crowd.nodes]
    await admin.create_at_once(nodes)
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            # Every new node is tainted as not ready.
            tasks.create_task(
                admin.patch("Node", node["metadata"]["name"], {"spec": {"taints": node["spec"]["taints"]}})
            )
    await admin.create_at_once(document for crowd in crowds for document in crowd.documents())
    async with asyncio.TaskGroup() as tasks:
        for document, status in (pair for crowd in crowds for pair in crowd.states()):
            kind, metadata = document["kind"], document["metadata"]
            namespace = metadata.get("namespace", "")
            body = {"status": status}
            tasks.create_task(admin.patch(kind, metadata["name"], body, namespace, subresource="status"))
    await admin.create_at_once(crowd.waiting for crowd in crowds)


async def recorded(admin: Admin) -> list[object]:
    budgets = await admin.list("PodDisruptionBudget")
    documents = [*(await dumped(admin))["items"], *({"kind": "PodDisruptionBudget", **budget} for budget in budgets)]
    return [decoded(document) for document in documents]


def outcomes(records: list[object]) -> dict[str, Outcome]:
    """Return what we decide about each waiting pod, by its name."""
    known = [record for record in records if record is not None]
    snapshot = snapshot_of(known)  # type: ignore[arg-type]
    storage = View(snapshot, VolumeIndex.of(record for record in known if isinstance(record, Volume)))
    cluster, profile = view_of(storage, datetime.now(UTC)), default_profile(ASKED)
    budgets = Budgets(record for record in known if isinstance(record, DisruptionBudget))
    results: dict[str, Outcome] = {}
    for pod in (record for record in known if isinstance(record, Pod) and not record.node_name):
        decision = decide(pod, cluster, profile)
        if not isinstance(decision, Unschedulable):
            results[pod.name] = Outcome(placed=True)
            continue
        answer = Preemptor().preempt(decision, profile, budgets, {})
        victims = frozenset(victim.name for victim in answer.victims) if isinstance(answer, Preemption) else frozenset()
        results[pod.name] = Outcome(answer.node if isinstance(answer, Preemption) else "", victims)
    return results


async def disagreements(admin: Admin, ours: dict[str, Outcome], budgets: Budgets) -> dict[str, object]:
    """Return the waiting pods with which something else happened than we said, or nothing yet."""
    pods = {pod["metadata"]["name"]: pod for pod in await admin.list("Pod", NAMESPACE)}
    leaving: dict[str, list[Document]] = {}
    for pod in pods.values():
        if "deletionTimestamp" in pod["metadata"]:
            leaving.setdefault(pod["metadata"]["labels"]["crowd"], []).append(pod)
    wrong: dict[str, object] = {}
    for name, outcome in ours.items():
        victims = leaving.get(name, [])
        theirs = outcome_of(pods[name], victims)
        exceeded = theirs is not None and budgets.beyond(alive(victim) for victim in victims)
        if theirs != outcome and not (exceeded and not outcome.victims):
            wrong[name] = {"ours": str(outcome), "theirs": str(theirs), "message": unschedulable_message(pods[name])}
    return wrong


def outcome_of(pod: Document, victims: Iterable[Document]) -> Outcome | None:
    """Return what kube-scheduler made of a pod, None when it has not said so yet."""
    if pod["spec"].get("nodeName"):
        return Outcome(placed=True)
    if not unschedulable_message(pod):
        return None
    names = frozenset(victim["metadata"]["name"] for victim in victims)
    return Outcome(pod["status"].get("nominatedNodeName", ""), names)


def alive(document: Document) -> Pod:
    """Return the pod as it was before it was evicted."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "deletionTimestamp"}
    pod = decoded(json.loads(json.dumps({**document, "kind": "Pod", "metadata": metadata})))
    assert isinstance(pod, Pod)
    return pod
