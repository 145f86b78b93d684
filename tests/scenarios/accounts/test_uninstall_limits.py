"""What the account of manifests/uninstall may do: what the command does, and nothing beside it."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import pytest
import pytest_asyncio

from tests.scenarios.accounts.stolen_token import UNINSTALL, Patch, Thief
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import SYSTEM
from tests.scenarios.processes.uninstall_command import (
    arrange,
    lease_read_right,
    marked,
    own_driver,
    state,
    uninstall,
)

GATES: Final = [{"name": f"{PREFIX}volumes"}, {"name": "b.example/gate"}]
OTHER: Final = "pv.kubernetes.io/provisioned-by"
REFERENCE: Final = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "data"}


@pytest_asyncio.fixture
async def own(limited: World) -> AsyncIterator[World]:
    """A story of its own in the cluster with the policies."""
    async with lived_in(World(limited.cluster, limited.admin, PREFIX)) as world:
        yield world


ON_PODS: Final[dict[str, Patch]] = {
    "image": {"spec": {"containers": [{"name": "app", "image": "other:1"}]}},
    "toleration": {"spec": {"tolerations": [{"key": "a.example/b", "operator": "Exists"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "label": {"metadata": {"labels": {"a": "b"}}},
    "annotation": {"metadata": {"annotations": {f"{PREFIX}a": "b"}}},
    "finalizer": {"metadata": {"finalizers": ["a.example/b"]}},
    "gate-of-another": {"spec": {"schedulingGates": GATES[:1]}},
    "all-gates": {"spec": {"schedulingGates": None}},
}


@pytest.mark.parametrize("case", ON_PODS)
async def test_a_pod_loses_our_gate_and_nothing_else_changes(own: World, case: str) -> None:
    (pod,) = own.pod_documents("probe", {}, gated=True)
    pod["spec"]["schedulingGates"] = GATES
    body = dict(ON_PODS[case])
    (made,) = await own.admin.create(pod)
    if case == "image":
        body = {"spec": {"containers": [each | {"image": "other:1"} for each in made["spec"]["containers"]]}}
    if case == "toleration":
        body = {"spec": {"tolerations": [*made["spec"].get("tolerations", []), *ON_PODS[case]["spec"]["tolerations"]]}}
    thief = Thief(own.cluster, UNINSTALL)
    assert "denied" in await thief.patch("Pod", "probe", body, own.namespace)
    assert await thief.patch("Pod", "probe", {"spec": {"schedulingGates": GATES[1:]}}, own.namespace) == ""


ON_CLAIMS: Final[dict[str, Patch]] = {
    "our-annotation-written": {"metadata": {"annotations": {f"{PREFIX}reserved-volume": "another"}}},
    "our-annotation-added": {"metadata": {"annotations": {f"{PREFIX}reserved-zone": "a"}}},
    "annotation-of-another": {"metadata": {"annotations": {OTHER: None}}},
    "label": {"metadata": {"labels": {"a": "b"}}},
    "finalizers": {"metadata": {"finalizers": None}},
    "volume": {"spec": {"volumeName": "a"}},
}


@pytest.mark.parametrize("case", ON_CLAIMS)
async def test_a_claim_loses_our_annotations_and_nothing_else_changes(own: World, case: str) -> None:
    disks = await own.storage_class(None)
    notes = {f"{PREFIX}reserved-volume": "a", OTHER: "b"}
    metadata = {"name": "probe", "namespace": own.namespace, "annotations": notes}
    await own.admin.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim_spec(disks)}
    )
    tried = partial(Thief(own.cluster, UNINSTALL).patch, "PersistentVolumeClaim", "probe", namespace=own.namespace)
    assert "denied" in await tried(body=ON_CLAIMS[case])
    assert await tried(body={"metadata": {"annotations": {f"{PREFIX}reserved-volume": None}}}) == ""


RECORD: Final = {f"{PREFIX}claim-ref": "elsewhere/data/uid-1"}
QUARANTINED: Final = {f"{PREFIX}quarantine": "Inaccessible", f"{PREFIX}quarantined-at": "2026-01-01T00:00:00Z"}
ON_VOLUMES: Final[dict[str, Patch]] = {
    "reclaim-policy": {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    "capacity": {"spec": {"capacity": {"storage": "9Gi"}}},
    "class": {"spec": {"storageClassName": "another"}},
    "claim-reference-to-another": {"spec": {"claimRef": REFERENCE | {"name": "mine"}}},
    "uid": {"spec": {"claimRef": {"uid": "5f1e1a3e-0000-0000-0000-000000000000"}}},
    "our-annotation-written": {"metadata": {"annotations": {f"{PREFIX}claim-ref": "elsewhere/mine/uid-1"}}},
    "our-annotation-added": {"metadata": {"annotations": {f"{PREFIX}health": "DataLoss"}}},
    "annotation-of-another": {"metadata": {"annotations": {OTHER: None}}},
    "bound-by-controller-alone": {"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": None}}},
    "label": {"metadata": {"labels": {"a": "b"}}},
    "finalizers": {"metadata": {"finalizers": None}},
}
CLEARED: Final[Patch] = {
    "spec": {"claimRef": None},
    "metadata": {"annotations": {f"{PREFIX}claim-ref": None, "pv.kubernetes.io/bound-by-controller": None}},
}


@pytest.mark.parametrize("case", ON_VOLUMES)
async def test_a_volume_loses_what_it_records_as_ours_and_nothing_else_changes(own: World, case: str) -> None:
    await given_volume(own, REFERENCE, RECORD)
    thief = Thief(own.cluster, UNINSTALL)
    assert "denied" in await thief.patch("PersistentVolume", own.name("probe"), ON_VOLUMES[case])
    assert await thief.patch("PersistentVolume", own.name("probe"), CLEARED) == ""


@pytest.mark.parametrize(
    ("reference", "notes"),
    [
        (REFERENCE, {}),
        (REFERENCE, {f"{PREFIX}claim-ref": "elsewhere/another/uid-1"}),
        (REFERENCE, QUARANTINED),
        (REFERENCE | {"name": "quarantine-PROBE"}, {}),
        (REFERENCE | {"name": "quarantine-PROBE", "uid": "5f1e1a3e-0000-0000-0000-000000000000"}, QUARANTINED),
    ],
    ids=["no-record", "record-of-another", "quarantine-of-a-claim", "placeholder-alone", "placeholder-with-uid"],
)
async def test_a_claim_reference_that_is_not_ours_stays(own: World, reference: Document, notes: Document) -> None:
    named = reference | {"name": reference["name"].replace("PROBE", own.name("probe"))}
    async with own.pv_controller_paused():
        await given_volume(own, named, notes)
        rejection = await Thief(own.cluster, UNINSTALL).patch(
            "PersistentVolume", own.name("probe"), {"spec": {"claimRef": None}}
        )
        assert "from an unused volume only" in rejection


@pytest.mark.parametrize("phase", ["Bound", "Released", "Failed"])
async def test_a_volume_in_use_keeps_its_claim_reference(own: World, phase: str) -> None:
    async with own.pv_controller_paused():
        await given_volume(own, REFERENCE, RECORD)
        name = own.name("probe")
        await own.admin.patch("PersistentVolume", name, {"status": {"phase": phase}}, subresource="status")
        rejection = await Thief(own.cluster, UNINSTALL).patch("PersistentVolume", name, CLEARED)
        assert "from an unused volume only" in rejection


async def test_a_volume_leaves_quarantine(own: World) -> None:
    await given_volume(own, REFERENCE | {"name": f"quarantine-{own.name('probe')}"}, QUARANTINED)
    body = {"spec": {"claimRef": None}, "metadata": {"annotations": dict.fromkeys(QUARANTINED)}}
    assert await Thief(own.cluster, UNINSTALL).patch("PersistentVolume", own.name("probe"), body) == ""


async def given_volume(world: World, reference: Document, notes: Document) -> None:
    made = world.volume("probe", await world.storage_class(None))
    made["spec"]["claimRef"] = reference
    made["metadata"]["annotations"] = {OTHER: "a", "pv.kubernetes.io/bound-by-controller": "yes"} | notes
    await world.admin.create(made)


@pytest.mark.parametrize("mode", ["annotate", "prebind"])
async def test_the_command_does_all_its_work_within_the_limits(own: World, mode: str) -> None:
    await lease_read_right(own)
    account = await own.cluster.kubeconfig_for_service_account(SYSTEM, UNINSTALL)
    async with own_driver(own) as driver:
        _, lost = await arrange(own, mode, driver)
        async with own.pv_controller_paused():
            before = await state(own)
            await marked(own, lost, driver)
            code, _, error = await uninstall(own, account)
            assert (code, error) == (0, ""), error
            for pod in ("app", "big"):
                del before[f"pod {pod}"]["spec"]["schedulingGates"]
            assert await state(own) == before
