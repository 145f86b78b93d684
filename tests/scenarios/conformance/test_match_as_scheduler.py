"""`match` says of hundreds of random pods the very nodes that a real kube-scheduler takes, and the volumes it binds.

And the extender, asked the questions that kube-scheduler asked, rejects just the nodes where those volumes are
unhealthy or reserved for others.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from devcluster.cluster import DevCluster
from kube.clock import SystemClock
from kube.store.store import Store
from scheduler.extender.extender import Extender
from scheduler.volumes.node_answer import NodeAnswer
from tests.scenarios.conformance.puzzles import SELECTED, puzzle
from tests.scenarios.conformance.quiet_cluster import dumped, lay_out, quiet_cluster, unschedulable_message, untried
from tests.scenarios.conformance.recording_extender import Recording, recording_scheduler
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.waiting import eventually
from why.match.pods import PodAnswer, pod_answers, waiting
from why.reading.dump import read_dump

SEED: Final = 20261121
COUNT: Final = 300
NAMESPACE: Final = "puzzles"
ASKED: Final = "asked"


@pytest_asyncio.fixture(loop_scope="session")
async def quiet() -> AsyncIterator[DevCluster]:
    async with quiet_cluster(NAMESPACE) as cluster:
        yield cluster


@pytest.mark.asyncio(loop_scope="session")
async def test_match_and_the_scheduler_agree(quiet: DevCluster, tmp_path: Path) -> None:
    puzzles = [puzzle(number, SEED, NAMESPACE, ASKED) for number in range(COUNT)]
    async with Admin(quiet) as admin:
        await lay_out(admin, puzzles, NAMESPACE)
        dump = tmp_path / "dump.json"
        dump.write_text(json.dumps(await dumped(admin)))
        answers = {answer.pod.name: answer for answer in answered(dump)}
        async with recording_scheduler(quiet, ASKED) as recording:
            await eventually(
                lambda: untried(admin, recording, NAMESPACE, ASKED), lambda names: not names, "all pods were tried"
            )
            wrong = disagreements(answers, recording)
            assert wrong == {}, await verdicts(admin, wrong)
            assert left_by_the_extender(dump, recording) == without_bad_volumes(answers, recording, dump)
            expected = [expectation(answers[name], node) for name, node in recording.chosen.items()]
            await eventually(
                lambda: wrong_volumes(admin, expected),
                lambda wrong: not wrong,
                "the volumes `match` named are taken",
                30,
            )


def answered(dump: Path) -> Iterator[PodAnswer]:
    """Answer as the command does, for the pods alone: why each claim does not get each volume would fill a book."""
    read = read_dump([str(dump)], BytesIO(), SystemClock().now())
    assert read.faults == []
    snapshot = read.facts.snapshot
    return pod_answers(waiting(snapshot.pods.values()), [*snapshot.nodes.values()], snapshot)


def left_by_the_extender(dump: Path, recording: Recording) -> dict[str, set[str]]:
    """Send the extender what kube-scheduler sent; return the nodes it leaves for each pod."""
    now = SystemClock().now()
    store, objects = Store(), read_dump([str(dump)], BytesIO(), now).facts.snapshot
    extender = Extender(store, Annotations())
    store.volumes.replace(objects.volumes.values(), "")
    store.classes.replace(objects.classes.values(), "")
    store.claims.replace(objects.claims.values(), "")
    store.nodes.replace(objects.nodes.values(), "")
    return {
        name: set(json.loads(extender.filter(question, now).body)["NodeNames"])
        for name, question in recording.requests.items()
    }


def without_bad_volumes(answers: dict[str, PodAnswer], recording: Recording, dump: Path) -> dict[str, set[str]]:
    """Return the nodes on which kube-scheduler would take no volume that is unhealthy or held for another claim.

    `answers` has what it takes. What is wrong with a volume is read off the dump, by the rules here only.
    """
    objects = {
        (item["kind"], item["metadata"]["name"]): item["metadata"] for item in json.loads(dump.read_text())["items"]
    }

    def bad(volume: str, pod: PodAnswer) -> bool:
        annotations = objects["PersistentVolume", volume].get("annotations", {})
        own = {objects["PersistentVolumeClaim", claim.name]["uid"] for claim in pod.pod.claims}
        held = annotations.get(f"{DEFAULT_PREFIX}expires-at", "") > "2026-06"
        unhealthy = annotations.get(f"{DEFAULT_PREFIX}health", "Healthy") != "Healthy"
        return unhealthy or (held and annotations[f"{DEFAULT_PREFIX}reserved-for-uid"] not in own)

    left = {
        name: {
            node.node
            for node in answers[name].nodes
            if node.fits and not any(bad(v.name, answers[name]) for _, v in node.volumes)
        }
        for name in recording.passed
    }
    fewer = [nodes for name, nodes in left.items() if nodes != recording.passed[name]]
    assert len(fewer) > 15, "too few bad volumes to show anything"
    assert sum(map(bool, fewer)) > 5, "too few pods with a choice"
    return left


async def verdicts(admin: Admin, names: Iterable[str]) -> dict[str, str]:
    return {name: unschedulable_message(await admin.get("Pod", name, NAMESPACE)) for name in names}


def disagreements(answers: dict[str, PodAnswer], recording: Recording) -> dict[str, tuple[set[str], set[str]]]:
    """Return the pods for which `match` names other nodes than kube-scheduler takes, with both sets."""
    accepted = {name: {node.node for node in answer.nodes if node.fits} for name, answer in answers.items()}
    taken = {name: recording.passed.get(name, set()) for name in accepted}
    assert {0, 1, 8} <= {len(nodes) for nodes in taken.values()}, "the puzzles are too much alike to show anything"
    return {name: (accepted[name], taken[name]) for name in accepted if accepted[name] != taken[name]}


def expectation(answer: PodAnswer, node: str) -> NodeAnswer:
    return next(candidate for candidate in answer.nodes if candidate.node == node)


async def wrong_volumes(admin: Admin, expected: list[NodeAnswer]) -> list[str]:
    """Return what has not become of the claims of these pods as expected."""
    volumes = await admin.list("PersistentVolume")
    holders = {volume["metadata"]["name"]: volume["spec"].get("claimRef", {}).get("name") for volume in volumes}
    claims = await admin.list("PersistentVolumeClaim", NAMESPACE)
    selected = {claim["metadata"]["name"]: claim["metadata"].get("annotations", {}).get(SELECTED) for claim in claims}
    return list(_differences(expected, holders, selected))


def _differences(expected: Iterable[NodeAnswer], holders: dict[str, Any], selected: dict[str, Any]) -> Iterable[str]:
    for answer in expected:
        for claim, volume in answer.volumes:
            if holders[volume.name] != claim.name:
                yield f"{volume.name} should be taken for {claim.name}, and is {holders[volume.name]}'s"
        for claim in answer.provision:
            if selected[claim.name] != answer.node:
                yield f"a volume should be made for {claim.name} on {answer.node}, not on {selected[claim.name]}"
