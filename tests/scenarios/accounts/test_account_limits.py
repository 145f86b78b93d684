"""The admission policies of manifests/components: with them the accounts can do their work, and nothing beside it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import pytest

from devcluster.driver.health import VolumeFault
from tests.scenarios.accounts.documents import event, lease
from tests.scenarios.accounts.policies_in_force import policies_in_force
from tests.scenarios.accounts.stolen_token import SCHEDULER, Patch, Thief
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.drivers import endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import health, quarantined, volumes
from tests.scenarios.processes.agent import agent_account, start_agent
from tests.scenarios.processes.controller import ACCOUNT, SYSTEM, start_controller

GATE: Final = f"{PREFIX}volumes"
OURS: Final = {f"{PREFIX}reserved-for": "default/data"}
REFERENCE: Final = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "data"}


async def attempt(  # noqa: PLR0917 - what a request consists of
    world: World, account: str, kind: str, name: str, body: Patch, subresource: str = "", namespace: str = SYSTEM
) -> str:
    """Patch an object of the story as a thief of that account's token would."""
    inside = world.namespace if kind != "PersistentVolume" else ""
    return await Thief(world.cluster, account, namespace).patch(kind, name, body, inside, subresource)


ON_VOLUMES: Final[dict[str, tuple[Patch, str]]] = {
    "label": ({"metadata": {"labels": {"a": "b"}}}, ""),
    "finalizer": ({"metadata": {"finalizers": ["a.example/b"]}}, ""),
    "owner": (
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
        "",
    ),
    "annotation": ({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "a.example"}}}, ""),
    "reclaim-policy": ({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, ""),
    "class": ({"spec": {"storageClassName": "other"}}, ""),
    "capacity": ({"spec": {"capacity": {"storage": "9Gi"}}}, ""),
}
ON_STATUS: Final[dict[str, tuple[Patch, str]]] = {
    "message": ({"status": {"message": "stolen"}}, "status"),
    "failed": ({"status": {"phase": "Failed"}}, "status"),
    "released": ({"status": {"phase": "Released"}}, "status"),
    "annotation-by-status": ({"metadata": {"annotations": {"a": "b"}}}, "status"),
}


@pytest.mark.parametrize("account", [ACCOUNT, SCHEDULER])
@pytest.mark.parametrize("case", ON_VOLUMES)
async def test_a_volume_is_not_changed_beside_claim_reference_and_annotations(
    limited: World, account: str, case: str
) -> None:
    body, subresource = ON_VOLUMES[case]
    assert "denied" in await attempt(limited, account, "PersistentVolume", limited.name("probe"), body, subresource)


@pytest.mark.parametrize("case", ON_STATUS)
async def test_of_the_status_of_a_volume_only_the_phase_of_a_bind_is_changed(limited: World, case: str) -> None:
    body, subresource = ON_STATUS[case]
    assert "denied" in await attempt(limited, ACCOUNT, "PersistentVolume", limited.name("probe"), body, subresource)


@pytest.mark.parametrize("account", [ACCOUNT, SCHEDULER])
@pytest.mark.parametrize("phase", ["Bound", "Released", "Failed"])
async def test_a_volume_in_use_keeps_its_claim_reference(limited: World, account: str, phase: str) -> None:
    name = limited.name(f"used-{phase.lower()}-{account}")
    async with limited.pv_controller_paused():
        used = limited.volume(f"used-{phase.lower()}-{account}", limited.name("probe"))
        used["spec"]["claimRef"] = REFERENCE | {"uid": "5f1e1a3e-0000-0000-0000-000000000000"}
        await limited.admin.create(used)
        await limited.admin.patch("PersistentVolume", name, {"status": {"phase": phase}}, subresource="status")
        for reference in (None, REFERENCE | {"name": "mine", "uid": None}):
            body = {"spec": {"claimRef": reference}}
            assert "of unused volumes only" in await attempt(limited, account, "PersistentVolume", name, body)
        await limited.admin.delete("PersistentVolume", name)


UID: Final = "5f1e1a3e-0000-0000-0000-000000000000"
RECORD: Final = {f"{PREFIX}claim-ref": f"elsewhere/data/{UID}"}


@pytest.mark.parametrize("phase", ["Bound", "Released", "Failed"])
async def test_only_a_released_volume_that_it_committed_loses_its_claim_reference(limited: World, phase: str) -> None:
    """What mode prebind committed, and a deleted claim left Released; it cannot make a record of others' later."""
    name = limited.name(f"committed-{phase.lower()}")
    async with limited.pv_controller_paused():
        committed = limited.volume(f"committed-{phase.lower()}", limited.name("probe"))
        committed["spec"]["claimRef"] = REFERENCE | {"uid": UID}
        await limited.admin.create(committed)
        await limited.admin.patch("PersistentVolume", name, {"status": {"phase": phase}}, subresource="status")
        tried = partial(attempt, limited, ACCOUNT, "PersistentVolume", name)
        assert "on unused volumes only" in await tried({"metadata": {"annotations": RECORD}})
        await limited.admin.patch("PersistentVolume", name, {"metadata": {"annotations": RECORD}})
        other = {"spec": {"claimRef": REFERENCE | {"uid": None}}}
        assert "of unused volumes only" in await tried(other)
        freed = await tried({"metadata": {"annotations": dict.fromkeys(RECORD)}, "spec": {"claimRef": None}})
        assert freed == "" if phase == "Released" else "of unused volumes only" in freed
        await limited.admin.delete("PersistentVolume", name)


async def test_an_unused_volume_gets_annotations_and_a_claim_reference_and_loses_them(limited: World) -> None:
    name = limited.name("probe")
    for notes, reference in ((OURS, REFERENCE), (dict.fromkeys(OURS), None)):
        body = {"metadata": {"annotations": notes}, "spec": {"claimRef": reference}}
        assert await attempt(limited, ACCOUNT, "PersistentVolume", name, body) == ""
    for reference in (REFERENCE, None):
        body = {"spec": {"claimRef": reference}}
        assert await attempt(limited, SCHEDULER, "PersistentVolume", name, body) == ""


ON_CLAIMS: Final[dict[str, tuple[Patch, str]]] = {
    "label": ({"metadata": {"labels": {"a": "b"}}}, ""),
    "finalizers": ({"metadata": {"finalizers": None}}, ""),
    "annotation": ({"metadata": {"annotations": {"a": "b"}}}, ""),
    "volume-alone": ({"spec": {"volumeName": "a"}}, ""),
    "conditions": ({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}, "status"),
    "lost": ({"status": {"phase": "Lost"}}, "status"),
}


@pytest.mark.parametrize("account", [ACCOUNT, SCHEDULER])
@pytest.mark.parametrize("case", ON_CLAIMS)
async def test_a_claim_is_not_changed_beside_what_a_bind_writes(limited: World, account: str, case: str) -> None:
    await given_claim(limited)
    body, subresource = ON_CLAIMS[case]
    rejection = await attempt(limited, account, "PersistentVolumeClaim", "probe", body, subresource)
    assert "denied" in rejection or "cannot patch" in rejection


async def given_claim(world: World) -> None:
    if await world.admin.find("PersistentVolumeClaim", "probe", world.namespace) is None:
        spec = claim_spec(world.name("probe"))
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        await world.admin.create(
            kind | {"metadata": {"name": "probe", "namespace": world.namespace}, "spec": spec | {"volumeName": ""}}
        )


async def test_a_selected_node_is_not_changed_and_stays_once_a_provisioner_is_named(limited: World) -> None:
    """And it is only selected together with our own record of it."""
    await given_claim(limited)
    selected, ours = "volume.kubernetes.io/selected-node", f"{PREFIX}selected-at"

    async def write(**notes: str | None) -> str:
        values = {{"node": selected, "at": ours}[word]: text for word, text in notes.items()}
        body = {"metadata": {"annotations": values}}
        return await attempt(limited, ACCOUNT, "PersistentVolumeClaim", "probe", body)

    assert "select a node" in await write(node="a")
    assert await write(node="a", at="now") == ""
    assert "select a node" in await write(node="b")
    assert await write(node=None, at=None) == ""
    assert await write(node="a", at="now") == ""
    begun = {"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "a.example"}}}
    await limited.admin.patch("PersistentVolumeClaim", "probe", begun, limited.namespace)
    assert "select a node" in await write(node=None, at=None)
    names = (selected, ours, *begun["metadata"]["annotations"])
    gone = {"metadata": {"annotations": dict.fromkeys(names)}}
    await limited.admin.patch("PersistentVolumeClaim", "probe", gone, limited.namespace)


async def test_a_provisioner_is_named_once_and_only_where_this_account_selected_the_node(limited: World) -> None:
    await given_claim(limited)
    names = ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
    node = {"volume.kubernetes.io/selected-node": "a", f"{PREFIX}selected-at": "now"}

    async def write(notes: Mapping[str, str | None]) -> str:
        body = {"metadata": {"annotations": dict(notes)}}
        return await attempt(limited, ACCOUNT, "PersistentVolumeClaim", "probe", body)

    async def clear() -> None:
        gone = {"metadata": {"annotations": dict.fromkeys([*names, *node])}}
        await limited.admin.patch("PersistentVolumeClaim", "probe", gone, limited.namespace)

    named = dict.fromkeys(names, "a.example")
    assert "name it then" in await write(named)
    assert "name it then" in await write(named | {f"{PREFIX}selected-at": "now"})
    assert await write(node) == ""
    assert await write(named) == ""
    assert "name it then" in await write(dict.fromkeys(names, "b.example"))
    assert "name it then" in await write(dict.fromkeys(names))
    await clear()
    assert await write(node | named) == "", "as one write"
    await clear()


async def test_without_the_rights_of_mode_complete_no_claim_gets_a_volume(limited: World) -> None:
    await given_claim(limited)
    bind = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": limited.name("probe")},
    }
    async with without_mode_complete(limited):
        tried = partial(attempt, limited, ACCOUNT, "PersistentVolumeClaim", "probe", bind)
        rejection = await eventually(tried, lambda answer: "denied" in answer, "it is rejected")
        assert "in mode complete" in rejection


@asynccontextmanager
async def without_mode_complete(world: World) -> AsyncIterator[None]:
    """While inside, the controller's account lacks the rights of components/complete."""
    role = await world.admin.get("ClusterRole", "pvc-prebinder-complete")
    await world.admin.patch("ClusterRole", "pvc-prebinder-complete", {"rules": []})
    try:
        yield
    finally:
        await world.admin.patch("ClusterRole", "pvc-prebinder-complete", {"rules": role["rules"]})


GONE: Final = {"spec": {"claimRef": REFERENCE | {"uid": "5f1e1a3e-0000-0000-0000-000000000000"}}}
"""Names a claim that does not exist: the PV controller takes the volume for one that its claim has left."""


@pytest.mark.parametrize("policy", ["Delete", "Recycle"])
async def test_without_the_rights_of_mode_complete_no_unused_volume_is_reclaimed(limited: World, policy: str) -> None:
    name = limited.name(f"unused-{policy.lower()}")
    made = limited.volume(f"unused-{policy.lower()}", limited.name("probe"), reclaim_policy=policy)
    if policy == "Recycle":
        made["spec"] |= {"csi": None, "hostPath": {"path": "/nowhere"}}
    await limited.volumes(limited.name("probe"), made)
    async with without_mode_complete(limited), limited.pv_controller_paused():
        # Once it is rejected for its uid, the API server has noticed that the rights are gone.
        tried = partial(attempt, limited, ACCOUNT, "PersistentVolume", name)
        await eventually(partial(tried, GONE), lambda answer: "with reclaim policy Retain only" in answer, "rejected")
        assert await tried({"spec": {"claimRef": REFERENCE}}) == ""
        assert "with reclaim policy Retain only" in await tried(GONE)
        assert await tried({"spec": {"claimRef": None}}) == ""
    assert await limited.admin.find("PersistentVolume", name)


async def test_the_status_of_a_bound_claim_stays(limited: World) -> None:
    disks = await limited.storage_class(None, "bound")
    await limited.volumes(disks, limited.volume("bound", disks))
    await limited.pod("bound", {"bound": claim_spec(disks)})
    await limited.all_run("bound")
    for status in ({"capacity": {"storage": "9Gi"}}, {"accessModes": ["ReadWriteMany"]}):
        body = {"status": status}
        rejection = await attempt(limited, ACCOUNT, "PersistentVolumeClaim", "bound", body, "status")
        assert "status of claims that are Bound" in rejection


ON_PODS: Final[dict[str, Patch]] = {
    "label": {"metadata": {"labels": {"a": "b"}}},
    "annotation": {"metadata": {"annotations": {"a": "b"}}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "node-selector": {"spec": {"nodeSelector": {"a": "b"}}},
    "all-gates": {"spec": {"schedulingGates": None}},
    "another-gate": {"spec": {"schedulingGates": [{"name": GATE}]}},
}


@pytest.mark.parametrize("case", ON_PODS)
async def test_a_pod_loses_our_gate_and_nothing_else_changes(limited: World, case: str) -> None:
    if "probe" not in await limited.pods():
        await limited.pod("probe", {}, gated=True)
    gates = [{"name": GATE}, {"name": "b.example/gate"}]
    body = ON_PODS[case]
    if case in {"all-gates", "another-gate"}:
        name = f"probe-{case}"
        (pod,) = limited.pod_documents(name, {}, gated=True)
        pod["spec"]["schedulingGates"] = gates
        await limited.admin.create(pod)
        assert "its own scheduling gate only" in await attempt(limited, ACCOUNT, "Pod", name, body)
        assert await attempt(limited, ACCOUNT, "Pod", name, {"spec": {"schedulingGates": gates[1:]}}) == ""
        return
    assert "denied" in await attempt(limited, ACCOUNT, "Pod", "probe", body)


async def test_a_pod_keeps_its_images_and_gets_no_tolerations(limited: World) -> None:
    (pod,) = limited.pod_documents("steady", {}, gated=True)
    await limited.admin.create(pod)
    spec = (await limited.pods())["steady"]["spec"]
    containers = [each | {"image": "other:1"} for each in spec["containers"]]
    tolerations = [*spec.get("tolerations", []), {"key": "a.example/b", "operator": "Exists"}]
    for change in ({"containers": containers}, {"tolerations": tolerations}):
        rejection = await attempt(limited, ACCOUNT, "Pod", "steady", {"spec": change})
        assert "in the spec this account may change schedulingGates only" in rejection


async def test_of_the_status_of_a_pod_the_scheduler_changes_what_kube_scheduler_does(limited: World) -> None:
    (pod,) = limited.pod_documents("watched", {}, gated=True)
    await limited.admin.create(pod)
    tried = partial(attempt, limited, SCHEDULER, "Pod", "watched", subresource="status")
    assert "denied" in await tried({"status": {"phase": "Failed"}})
    assert "denied" in await tried({"status": {"podIP": "10.0.0.1"}})
    before = (await limited.pods())["watched"]["status"].get("conditions", [])
    ready = {"type": "Ready", "status": "True"}
    assert "PodScheduled only" in await tried({"status": {"conditions": [*before, ready]}})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    others = [other for other in before if other["type"] != "PodScheduled"]
    assert await tried({"status": {"conditions": [*others, condition], "nominatedNodeName": "node-1"}}) == ""


async def test_others_are_not_concerned(limited: World) -> None:
    body = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}
    await limited.admin.patch("PersistentVolume", limited.name("probe"), body)


async def test_the_controller_does_all_its_work_within_the_limits(limited: World) -> None:
    driver = await start_directories(limited.cluster, f"{limited.namespace}.csi.example")
    flags = (endpoint_flag(driver.driver), "--health-sweep-interval=1s", "--quarantine", "--quarantine-max-share=1")
    policies = {"complete": "Delete"}
    controller = await start_controller(limited, *flags, "--allow-delete-policy")
    try:
        for mode in ("annotate", "prebind", "complete"):
            disks = await limited.storage_class(mode, f"work-{mode}")
            how = {"zone": "zone-a", "reclaim_policy": policies.get(mode, "Retain")}
            made = [limited.volume(f"{mode}-{number}", disks, **how) for number in range(2)]
            await limited.volumes(disks, *made)
            await limited.pod(
                f"work-{mode}", {f"{mode}-a": claim_spec(disks), f"{mode}-b": claim_spec(disks)}, gated=True
            )
            await limited.all_run(f"work-{mode}")
        disks = await limited.storage_class(None, "unhealthy")
        ((name, handle),) = (await volumes(limited, driver, disks, 1)).items()
        driver.break_volume(handle, VolumeFault.GONE)
        await eventually(partial(quarantined, limited), lambda inside: inside == {name}, "it is in quarantine")
        driver.recover(handle)
        await eventually(partial(quarantined, limited), lambda inside: not inside, "it is free")
        assert "denied" not in controller.log()
    finally:
        await controller.stop()
        await driver.driver.stop()


async def test_an_agent_changes_annotations_of_health_and_nothing_else(limited: World) -> None:
    driver = await start_directories(limited.cluster, f"agent-{limited.namespace}.csi.example")
    kubeconfig = await agent_account(limited, driver.driver.driver_name, "csi-agent-limits")
    disks = await limited.storage_class(None, "agent")
    name, handle = limited.name("watched"), driver.healthy("zone-a")
    where = {"zone": "zone-a", "driver": driver.driver.driver_name, "handle": handle}
    await limited.volumes(disks, limited.volume("watched", disks, **where))
    tried = partial(attempt, limited, "csi-controller", "PersistentVolume", name, namespace=limited.namespace)

    await policies_in_force(limited.cluster, limited.admin)
    for body in (
        {"metadata": {"labels": {"a": "another"}}},
        {"metadata": {"annotations": OURS}},
        {"metadata": {"annotations": {f"{PREFIX}quarantine": "yes"}}},
        {"metadata": {"annotations": {f"{PREFIX}healthy-looking": "yes"}}},
        {"metadata": {"finalizers": None}},
        {"spec": {"claimRef": REFERENCE}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    ):
        assert "denied" in await tried(body)
    anothers = {"metadata": {"annotations": {f"{PREFIX}health": "DataLoss"}}}
    thief = Thief(limited.cluster, "csi-controller", limited.namespace)
    assert "of its own driver only" in await thief.patch("PersistentVolume", limited.name("probe"), anothers)
    anothers_lease = lease("external-provisioner-leader", namespace=limited.namespace)
    assert "its own Lease only" in await thief.create(anothers_lease)
    assert "in its own name only" in await thief.create(event(limited, "forged-agent", "kubelet"))
    agent = await start_agent(limited, driver.driver, kubeconfig)
    try:
        driver.break_volume(handle, VolumeFault.GONE)
        await eventually(partial(health, limited), lambda health: health[name] == "Inaccessible", "the agent says so")
        await eventually(
            partial(limited.admin.list, "Event", "default"), lambda events: about(events, name), "an Event"
        )
        assert "denied" not in agent.log()
    finally:
        await agent.stop()
        await driver.driver.stop()


def about(events: list[Document], name: str) -> bool:
    return any(event["regarding"]["name"] == name for event in events)
