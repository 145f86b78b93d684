"""The gate by policy: pods of labelled namespaces are gated by the API server, and run on reserved volumes."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from devcluster.build.modules import chosen_kubernetes, minor_version
from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim, claim_spec, pod, pod_spec, stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS
from tests.scenarios.sidecars.installation import pools

pytestmark = pytest.mark.skipif(
    minor_version(chosen_kubernetes()) < (1, 36), reason=f"Kubernetes {chosen_kubernetes()} serves no such policies"
)

POLICY = MANIFESTS / "components" / "gate-policy" / "policy.yaml"
GATE = f"{PREFIX}volumes"
LABEL = f"{PREFIX}gate"


@pytest_asyncio.fixture
async def policy(cluster: DevCluster) -> AsyncIterator[None]:
    """The policy as shipped. The API server takes a moment to heed it: see `in_force`."""
    await cluster.run_kubectl("apply", "-f", str(POLICY))
    yield
    await cluster.run_kubectl("delete", "-f", str(POLICY))


def waiting(world: World, name: str, **how: object) -> Document:
    """A pod with a claim that there is not, so that its gate is not removed."""
    return pod(world.namespace, name, pod_spec(("missing",), **how))  # type: ignore[arg-type]


async def gates(world: World, document: Document) -> list[str]:
    (made,) = await world.admin.create(document)
    return [gate["name"] for gate in made["spec"].get("schedulingGates", ())]


async def in_force(world: World) -> None:
    """Label the namespace, and wait until a new pod in it is gated."""
    await world.admin.patch("Namespace", world.namespace, {"metadata": {"labels": {LABEL: "enabled"}}})
    numbers = count()

    async def new_pod() -> list[str]:
        return await gates(world, waiting(world, f"probe-{next(numbers)}"))

    await eventually(new_pod, lambda gates: gates == [GATE], "a new pod is gated")


async def test_pods_that_know_nothing_of_gates_run_on_the_volumes_reserved_for_them(world: World, policy: None) -> None:
    await in_force(world)
    disks = await world.storage_class("complete")
    await world.volumes(disks, *(world.volume(f"v{number}", disks, zone="zone-a") for number in range(6)))
    templates = {"data": claim_spec(disks), "wal": claim_spec(disks)}
    await world.admin.create(stateful_set(world.namespace, "db", templates, replicas=2))
    await world.all_run("db-0", "db-1")
    bound = await world.bound()
    assert len(set(bound.values())) == 4
    for name in ("db-0", "db-1"):
        event = await world.event("VolumeBound", name)
        assert all(
            f"{bound[f'{template}-{name}']} to claim {template}-{name}" in event["note"] for template in templates
        )


async def test_pods_that_know_nothing_of_gates_get_volumes_made_in_one_place(world: World, policy: None) -> None:
    """Mode provision: a claim each on both nodes would fit, and leave the pod with a part for ever. Generic ephemeral
    volumes count too.
    """
    await in_force(world)
    async with pools(world, 10) as (made, _):
        claims = [claim(world.namespace, f"db-{number}", claim_spec(made, "4Gi")) for number in (0, 1)]
        spec = pod_spec(("db-0", "db-1"), ephemeral={"scratch": claim_spec(made, "2Gi")})
        await world.admin.create(*claims, pod(world.namespace, "db", spec))
        await world.all_run("db", seconds=60)
        await world.event("NodeSelected", "db")
        selected = "volume.kubernetes.io/selected-node"
        nodes = [each["metadata"]["annotations"][selected] for each in (await world.claims()).values()]
        assert (len(nodes), len(set(nodes))) == (3, 1)


async def test_only_pods_with_claims_that_have_no_node_and_no_gate_yet_are_gated(world: World, policy: None) -> None:
    await in_force(world)
    plain = pod(world.namespace, "plain", pod_spec())
    left_alone = waiting(world, "left-alone")
    left_alone["metadata"]["labels"] = {LABEL: "disabled"}
    placed = waiting(world, "placed", extra={"nodeName": "nowhere"})
    assert await gates(world, plain) == []
    assert await gates(world, left_alone) == []
    assert await gates(world, placed) == []
    assert await gates(world, waiting(world, "gated", gated=True)) == [GATE]
    others = waiting(world, "others", gated=True, gate="example.com/other")
    assert sorted(await gates(world, others)) == ["example.com/other", GATE]
    scratch = pod_spec(ephemeral={"scratch": claim_spec("none")})
    assert await gates(world, pod(world.namespace, "scratch", scratch)) == [GATE]


async def test_namespaces_without_the_label_are_left_alone(world: World, own_world: World, policy: None) -> None:
    await in_force(world)
    assert await gates(own_world, waiting(own_world, "app")) == []
