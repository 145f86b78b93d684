"""What the standalone scheduler's account may do with pods: assign and evict them as the scheduler does."""

from typing import Final

import pytest

from tests.controller_process import running
from tests.scenarios.accounts.documents import binding, eviction
from tests.scenarios.accounts.stolen_token import SCHEDULER, Thief
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.scheduler_pods import pod
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM
from tests.scenarios.processes.scheduler_process import flags, is_leading, preempts, schedules_with_volumes, stopped

ZONE: Final = "topology.kubernetes.io/zone"


async def given_pod(world: World, name: str) -> Document:
    """A pod that no scheduler takes."""
    (made,) = await world.admin.create(pod(world, name, schedulerName="nobody"))
    return made


ON_PODS: Final[dict[str, Document]] = {
    "label": {"labels": {"app": "another"}},
    "label-besides-the-zone": {"labels": {ZONE: "zone-a", "app": "another"}},
    "annotation": {"annotations": {"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}},
}


@pytest.mark.parametrize("case", ON_PODS)
async def test_a_pod_gets_no_labels_and_annotations_by_a_binding(limited: World, case: str) -> None:
    await given_pod(limited, case)
    rejection = await Thief(limited.cluster, SCHEDULER).create(
        binding(limited, case, **ON_PODS[case]), kind="Pod", subresource="binding"
    )
    assert "of pods by a Binding" in rejection
    assert "nodeName" not in (await limited.pods())[case]["spec"]


async def test_a_pod_gets_no_zone_but_its_nodes(limited: World) -> None:
    """The API server overwrites the zone of a Binding with the node's, unless the target has no kind."""
    await given_pod(limited, "zoned")
    forged = binding(limited, "zoned", labels={ZONE: "forged"})
    del forged["target"]["kind"]
    thief = Thief(limited.cluster, SCHEDULER)
    assert "to nodes only" in await thief.create(forged, kind="Pod", subresource="binding")
    forged["target"]["kind"] = "Node"
    assert await thief.create(forged, kind="Pod", subresource="binding") == ""
    assert (await limited.pods())["zoned"]["metadata"]["labels"][ZONE] == "zone-a"


@pytest.mark.parametrize(
    "options",
    [{"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 1}, {"propagationPolicy": "Orphan"}],
    ids=["at-once", "too-soon", "orphan"],
)
async def test_an_evicted_pod_keeps_its_grace_period(limited: World, options: Document) -> None:
    name = f"evicted-{next(iter(options)).lower()}-{next(iter(options.values()))}".lower()
    made = await given_pod(limited, name)
    wanted = eviction(limited, name, preconditions={"uid": made["metadata"]["uid"]}, **options)
    rejection = await Thief(limited.cluster, SCHEDULER).create(wanted, kind="Pod", subresource="eviction")
    assert "how an evicted pod is deleted" in rejection


async def test_a_pod_is_evicted_by_its_uid_only(limited: World) -> None:
    await given_pod(limited, "unnamed")
    wanted = eviction(limited, "unnamed")
    assert "by its uid only" in await Thief(limited.cluster, SCHEDULER).create(wanted, "Pod", "eviction")


async def test_the_scheduler_does_all_its_work_within_the_limits(limited: World) -> None:
    account = await limited.cluster.kubeconfig_for_service_account(SYSTEM, SCHEDULER)
    async with running("scheduler", account, *flags(limited)) as process:
        await is_leading(process)
        await schedules_with_volumes(limited)
        await preempts(limited)
        assert "denied" not in await stopped(process)
