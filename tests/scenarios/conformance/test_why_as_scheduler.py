"""What `why` says of hundreds of random clusters is what a real kube-scheduler says, before and after its advice.

Each cluster is put right in memory by nothing but what `why` says, one step after another. Some of them are laid out
as they are after the last step, where kube-scheduler has to find a node for the pod, others on the way there, where it
must not find one unless the cause is none of its business.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import Final

import pytest
import pytest_asyncio

from binder.matching.matching import scheduler_rejection
from binder.matching.rejection import Reason
from devcluster.cluster import DevCluster
from kube.rules.selectors import node_matches
from tests.scenarios.conformance.advice import Step, choosy, facts_of, steps
from tests.scenarios.conformance.puzzles import Puzzle, puzzle
from tests.scenarios.conformance.quiet_cluster import lay_out, quiet_cluster, unschedulable_message, untried
from tests.scenarios.conformance.recording_extender import recording_scheduler
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.waiting import eventually

SEED: Final = 20261122
COUNT: Final = 300
NAMESPACE: Final = "mended"
SCHEDULER: Final = "judge"

_OF_A_CLAIM: Final = (
    r"not found|being deleted|bound to non-existent|lost its volume|unbound immediate|was not created for"
)
_WISH: Final = "node affinity/selector|Insufficient cpu"
"""Filters that kube-scheduler asks before it looks at volumes."""

_NO_VOLUME: Final = (
    "didn't find available persistent volumes to bind|didn't match PersistentVolume's node affinity|"
    f"did not have enough free storage|{_WISH}"
)
"""Of a pod with several claims kube-scheduler may name another one."""
WORDS: Final = {
    Reason.CLAIM_NOT_FOUND: _OF_A_CLAIM,
    Reason.CLAIM_DELETING: _OF_A_CLAIM,
    Reason.CLAIM_LOST: _OF_A_CLAIM,
    Reason.IMMEDIATE_CLAIM: "unbound immediate",
    Reason.PREBOUND_INCOMPLETE: "unbound immediate",
    Reason.NO_VOLUME_FITS: f"unbound immediate|{_NO_VOLUME}",
    Reason.INSUFFICIENT_STORAGE: _NO_VOLUME,
    Reason.TOPOLOGY_CONFLICT: f"{_NO_VOLUME}|no available volume zone",
    Reason.VOLUMES_IN_DIFFERENT_ZONES: f"{_NO_VOLUME}|no available volume zone",
    Reason.ATTACH_LIMIT_REACHED: f"{_WISH}|exceed max volume count",
    Reason.NO_NODE_FITS: _WISH,
}
"""What kube-scheduler says, in its words, where this is the cause; other causes may be hidden behind it."""


@pytest_asyncio.fixture(loop_scope="session")
async def quiet() -> AsyncIterator[DevCluster]:
    async with quiet_cluster(NAMESPACE) as cluster:
        yield cluster


@pytest.mark.asyncio(loop_scope="session")
async def test_the_advice_leads_to_a_node_and_the_cause_keeps_the_pod_from_one(quiet: DevCluster) -> None:
    laid_out = dict(some_step(number) for number in range(COUNT))
    codes = Counter(step.item.code for step in laid_out.values())
    assert len(codes) > 12, "the clusters are too much alike to show anything"
    async with Admin(quiet) as admin:
        await lay_out(admin, [step.puzzle for step in laid_out.values()], NAMESPACE)
        wrong = await contradicted(quiet, admin, laid_out)
        for name in wrong:
            # The first attempts may come before kube-scheduler has noted all volumes: its AssumeCache is filled behind
            # its informers, and nothing waits for it. A second one, started anew, tries these pods again.
            await admin.patch("Pod", name, {"status": {"conditions": None}}, NAMESPACE, subresource="status")
        if wrong:
            wrong = await contradicted(quiet, admin, {name: laid_out[name] for name in wrong})
    assert wrong == {}


async def contradicted(quiet: DevCluster, admin: Admin, laid_out: Mapping[str, Step]) -> dict[str, tuple[object, ...]]:
    """Return the pods of which a kube-scheduler that is started now says something else than `why`, with both."""
    async with recording_scheduler(quiet, SCHEDULER) as recording:
        await eventually(
            lambda: untried(admin, recording, NAMESPACE, SCHEDULER),
            lambda names: names.isdisjoint(laid_out),
            "all are tried",
        )
        messages = {pod["metadata"]["name"]: unschedulable_message(pod) for pod in await admin.list("Pod", NAMESPACE)}
    return {
        name: (step.item.code, step.item.message, recording.passed.get(name), messages[name])
        for name, step in laid_out.items()
        if not agree(step, bool(recording.passed.get(name)), messages[name])
    }


def some_step(number: int) -> tuple[str, Step]:
    """Return the pod of a random cluster, and a step on the way to where it is right: every third time the last."""
    random = Random(f"{SEED}/{number}")
    way = steps(choosy(puzzle(number, SEED, NAMESPACE, SCHEDULER), random), NAMESPACE)
    step = random.choice(way[:-1] or way) if number % 3 else way[-1]
    return step.puzzle.name, step


def is_left_to_chance(puzzle: Puzzle) -> bool:
    """Whether volumes that name the same claim are accessible from different nodes: kube-scheduler decides by the first
    one, in the order of a Go map.
    """
    snapshot = facts_of(puzzle).snapshot
    for key, names in snapshot.volumes_by_claim.items():
        claim = snapshot.claims.get(key)
        volumes = [snapshot.volumes[name] for name in names]
        fitting = [volume for volume in volumes if claim is not None and scheduler_rejection(claim, volume) is None]
        places = {
            frozenset(node.name for node in snapshot.nodes.values() if node_matches(volume.node_affinity, node.labels))
            for volume in fitting
        }
        if len(places) > 1:
            return True
    return False


def agree(step: Step, has_nodes: bool, message: str) -> bool:
    if step.has_nodes is None or is_left_to_chance(step.puzzle):
        return True
    words = WORDS.get(step.item.code, "")
    return has_nodes == step.has_nodes and (has_nodes or bool(re.search(words, message)))
