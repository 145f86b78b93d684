"""What the accounts may do with Leases and Events: write their own, and no others."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.scenarios.accounts.documents import HELD, HOLDER, NOW, event, lease
from tests.scenarios.accounts.stolen_token import SCHEDULER, Thief
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import ACCOUNT, SYSTEM

ACCOUNTS: Final = (ACCOUNT, SCHEDULER)
CREATED: Final[dict[str, Document]] = {
    "for-63-years": {"leaseDurationSeconds": 2_000_000_000},
    "for-61-seconds": {"leaseDurationSeconds": 61},
    "many-transitions": {"leaseTransitions": 2_147_483_647},
    "holder-that-says-something": {"holderIdentity": "run `kubectl delete` \x1b[2J"},
}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("case", CREATED)
async def test_a_lease_is_not_created_other_than_ours_are(limited: World, account: str, case: str) -> None:
    await gone(limited, account)
    assert "denied" in await Thief(limited.cluster, account).create(lease(account, **CREATED[case]))


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", ["another", "kube-scheduler"])
async def test_a_lease_of_another_name_is_not_created(limited: World, account: str, name: str) -> None:
    assert "its own Lease only" in await Thief(limited.cluster, account).create(lease(name))


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize(
    "metadata",
    [{"labels": {"a": "b"}}, {"finalizers": ["a.example/b"]}, {"annotations": {"a": "b"}}],
    ids=["label", "finalizer", "annotation"],
)
async def test_a_lease_is_created_without_more_metadata(
    limited: World, account: str, metadata: Mapping[str, Any]
) -> None:
    await gone(limited, account)
    assert "denied" in await Thief(limited.cluster, account).create(lease(account, metadata))


CHANGED: Final[dict[str, Document]] = {
    "for-63-years": {"spec": {"leaseDurationSeconds": 2_000_000_000}},
    "many-transitions": {"spec": {"leaseTransitions": 2_147_483_647}},
    "fewer-transitions": {"spec": {"leaseTransitions": 3}},
    "holder-that-says-something": {"spec": {"holderIdentity": "\x1b[2Jall is well"}},
    "label": {"metadata": {"labels": {"a": "b"}}},
    "finalizer": {"metadata": {"finalizers": ["a.example/b"]}},
    "annotation": {"metadata": {"annotations": {"a": "b"}}},
}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("case", CHANGED)
async def test_a_lease_is_not_changed_other_than_ours_are(limited: World, account: str, case: str) -> None:
    await given_lease(limited, account, leaseTransitions=4)
    assert "denied" in await Thief(limited.cluster, account).patch("Lease", account, CHANGED[case], SYSTEM)


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_a_lease_is_acquired_renewed_taken_over_and_released(limited: World, account: str) -> None:
    await gone(limited, account)
    thief = Thief(limited.cluster, account)
    assert await thief.create(lease(account)) == ""
    for body in (
        {"spec": {"renewTime": "2026-01-01T00:00:02.000000Z"}, "metadata": {"annotations": {f"{PREFIX}sweeps": "[]"}}},
        {"spec": HELD | {"holderIdentity": HOLDER.replace("0", "1"), "leaseTransitions": 1}},
        {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": NOW}},
    ):
        assert await thief.patch("Lease", account, body, SYSTEM) == ""


async def given_lease(world: World, name: str, **spec: Any) -> None:
    await gone(world, name)
    await world.admin.create(lease(name, **spec))


async def gone(world: World, name: str) -> None:
    if await world.admin.find("Lease", name, SYSTEM):
        await world.admin.delete("Lease", name, SYSTEM)


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("controller", ["kubelet", "scheduler.cloud.example/other"])
async def test_an_event_in_anothers_name_is_not_created(limited: World, account: str, controller: str) -> None:
    made = event(limited, f"forged-{account}", controller)
    assert "denied" in await Thief(limited.cluster, account).create(made)


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_an_event_of_another_is_not_changed(limited: World, account: str) -> None:
    name = f"kubelets-{account}"
    await limited.admin.create(event(limited, name, "kubelet"))
    for body in ({"metadata": {"labels": {"a": "b"}}}, {"series": {"count": 7, "lastObservedTime": NOW}}):
        assert "denied" in await Thief(limited.cluster, account).patch("Event", name, body, limited.namespace)


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_of_its_own_event_an_account_changes_the_series(limited: World, account: str) -> None:
    name = f"own-{account}"
    thief = Thief(limited.cluster, account)
    assert await thief.create(event(limited, name, f"scheduler.cloud.example/{account}")) == ""
    series = {"series": {"count": 2, "lastObservedTime": NOW}}
    assert await thief.patch("Event", name, series, limited.namespace) == ""
    for body in ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"finalizers": ["a.example/b"]}}):
        assert "denied" in await thief.patch("Event", name, body, limited.namespace)


async def test_the_scheduler_writes_events_of_scheduling_as_its_profile(limited: World) -> None:
    thief = Thief(limited.cluster, SCHEDULER)
    for reason in ("Scheduled", "FailedScheduling", "Preempted"):
        made = event(limited, f"of-{reason.lower()}", "zone-scheduler", reason=reason)
        assert await thief.create(made) == ""
