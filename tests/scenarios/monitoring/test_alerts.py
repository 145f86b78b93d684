"""Every alert on a real Prometheus that scrapes real processes: each fires by its cause, and resolves without it."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devcluster.driver.health import VolumeFault
from devcluster.processes.ports import LOOPBACK, free_ports
from kube.decoding.decode_health import ADDONS_PREFIX
from tests.controller_process import running
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.scheduler_pods import pod as scheduled_pod
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import volumes
from tests.scenarios.monitoring.prometheus import needs_prometheus
from tests.scenarios.monitoring.stage import CONTROLLER, EXTENDER, RULES, Stage, staged
from tests.scenarios.new_nodes.full_zone import full_zone, pod_of_one_cpu
from tests.scenarios.processes.controller import (
    ACCOUNT,
    account,
    start_controller,
)
from tests.scenarios.processes.proxy import Call, Fault, writes_of

pytestmark = [needs_prometheus, pytest.mark.timeout(900)]

SWEEP_RATE: Final = 2
DRIFT_SECONDS: Final = 180
"""The cache is compared every 30 s; what differs twice is drift, until the next comparison."""


async def test_alerts_fire_by_their_cause_and_resolve(own_world: World, tmp_path: Path) -> None:
    flags = "--reservation-ttl=10s", f"--health-sweep-rate={SWEEP_RATE}", "--hold-volumes"
    async with staged(own_world, tmp_path, *flags) as stage:
        prometheus = stage.prometheus
        assert await eventually(prometheus.firing, lambda firing: not firing, "nothing fires") == {}
        await volumes_become_unhealthy(stage)
        await a_report_is_unreadable(stage)
        await a_replica_gets_no_volumes(stage)
        await the_driver_hangs(stage)
        await there_are_more_volumes_than_are_probed_in_time(stage)
        await claims_wait_in_three_namespaces(stage)
        await a_node_does_not_come(stage)
        await a_bind_takes_its_time(stage)
        await reservations_expire(stage)
        await requests_to_the_extender_fail(stage)
        await a_write_does_not_end(stage)
        await events_are_rejected(stage)
        await watch_events_are_lost(stage)
        await the_lease_is_stolen(stage)
        await a_replica_may_read_nothing(stage)
        await the_controller_is_gone(stage)
        await the_extender_is_gone(stage)
        await the_scheduler_fails_and_is_gone(stage)
        alerts = {rule["alert"] for group in RULES for rule in group["rules"] if "alert" in rule}
        assert prometheus.fired == alerts


async def volumes_become_unhealthy(stage: Stage) -> None:
    made = await volumes(stage.world, stage.driver, stage.disks, 3)
    for handle, fault in zip(made.values(), (VolumeFault.GONE, VolumeFault.GONE, VolumeFault.READ_ONLY), strict=True):
        stage.driver.break_volume(handle, fault)
    # One of three is all that may be in quarantine.
    unhealthy = ("CSIVolumeUnhealthy", "CSIVolumeDegraded", "CSIVolumeUnhealthyForDays", "CSIQuarantineCapReached")
    await stage.prometheus.fires(*unhealthy)
    for handle in made.values():
        stage.driver.recover(handle)
    await stage.prometheus.resolves(*unhealthy)


async def a_report_is_unreadable(stage: Stage) -> None:
    world, key = stage.world, f"{ADDONS_PREFIX}uid-of-n1"
    await world.admin.create(documents.claim(world.namespace, "reported", claim_spec(stage.disks)))
    for text, change in (("{", stage.prometheus.fires), (None, stage.prometheus.resolves)):
        annotations = {"metadata": {"annotations": {key: text}}}
        await world.admin.patch("PersistentVolumeClaim", "reported", annotations, world.namespace)
        await change("CSIHealthReportsUnreadable")


async def a_replica_gets_no_volumes(stage: Stage) -> None:
    """Volumes are not held for classes in mode annotate."""
    world, key = stage.world, f"{stage.world.prefix}hold-replicas"
    hinted = await world.storage_class("annotate", "unheld")
    wanting = documents.stateful_set(world.namespace, "wanting", {"data": claim_spec(hinted)}, replicas=0)
    wanting["metadata"]["annotations"] = {key: "1"}
    await world.admin.create(wanting)
    await stage.prometheus.fires("PVCReplicasNotHeld")
    await world.admin.patch("StatefulSet", "wanting", {"metadata": {"annotations": {key: None}}}, world.namespace)
    await stage.prometheus.resolves("PVCReplicasNotHeld")


async def the_driver_hangs(stage: Stage) -> None:
    hanging = ("CSIEndpointDown", "CSIRPCErrorsHigh")
    stage.driver.driver.pause()
    try:
        for name in hanging:
            await stage.prometheus.fires(name)
    finally:
        stage.driver.driver.resume()
    await stage.prometheus.resolves(*hanging)


async def there_are_more_volumes_than_are_probed_in_time(stage: Stage) -> None:
    world, driver = stage.world, stage.each
    slow = await world.storage_class("off", "slow")
    handles = {f"slow-{number}": driver.healthy("zone-a") for number in range(6 * SWEEP_RATE)}
    about = {"zone": "zone-a", "driver": driver.driver.driver_name}
    made = (world.volume(word, slow, handle=handle, **about) for word, handle in handles.items())
    names = await world.volumes(slow, *made)
    await stage.prometheus.fires("CSIHealthOutdated")
    for name in names:
        await world.admin.delete("PersistentVolume", name)
    await stage.prometheus.resolves("CSIHealthOutdated")


async def claims_wait_in_three_namespaces(stage: Stage) -> None:
    world, waiting = stage.world, ("PVCPendingTooLong", "PVCReservationsFailing", "PVCPrebinderPodsGated")
    others = [World(world.cluster, world.admin, world.prefix) for _ in range(2)]
    for other in others:
        await other.open()
    for each in (world, *others):
        await each.pod("big", {"big": claim_spec(stage.disks, "1Ti")}, gated=True)
    firing = await stage.prometheus.fires(*waiting)
    for name in waiting[:2]:
        alert = firing[name]
        assert alert["labels"]["reason"] == "StaticOnlyNoMatch"
        assert alert["annotations"]["cause_url"] == "docs/causes/StaticOnlyNoMatch.md"
    for each in (world, *others):
        await each.admin.delete("Pod", "big", each.namespace)
        await each.admin.delete("PersistentVolumeClaim", "big", each.namespace)
    await stage.prometheus.resolves(*waiting)


async def a_node_does_not_come(stage: Stage) -> None:
    """No autoscaler runs here. The node is no node of other parts of the story."""
    world = stage.world
    await pod_of_one_cpu(world, "ahead", await full_zone(world, 1, within="2s"), gated=True)
    await stage.prometheus.fires("PVCNewNodeLate")
    await world.admin.delete("Pod", "ahead", world.namespace)
    await stage.prometheus.resolves("PVCNewNodeLate")
    await world.admin.delete("Node", world.name("full"))


async def a_bind_takes_its_time(stage: Stage) -> None:
    """Any is too slow here."""
    for number in range(30):
        await stage.world.volumes(stage.disks, stage.world.volume(f"slow-{number}", stage.disks, zone="zone-a"))
        await stage.world.pod(f"slow-{number}", {f"slow-{number}": claim_spec(stage.disks)}, gated=True)
        await stage.world.all_run(f"slow-{number}")
        if "PVCBindLatencyHigh" in await stage.prometheus.firing():
            break
    await stage.prometheus.fires("PVCBindLatencyHigh")
    await stage.prometheus.resolves("PVCBindLatencyHigh")


async def reservations_expire(stage: Stage) -> None:
    """kube-scheduler does not serve the pods, for which volumes are reserved again and again."""
    world = stage.world
    hinted = await world.storage_class("annotate", "hinted")
    names = [f"hinted-{number}" for number in range(15)]
    await world.volumes(hinted, *(world.volume(name, hinted, zone="zone-a") for name in names))
    async with world.scheduler_paused():
        for name in names:
            await world.pod(name, {name: claim_spec(hinted)})
        await stage.prometheus.fires("PVCReservationExpiryHigh")
    await world.all_run(*names)
    await stage.prometheus.resolves("PVCReservationExpiryHigh")


async def requests_to_the_extender_fail(stage: Stage) -> None:
    """Any answer is too slow here."""
    failing = {"PVCPrebinderExtenderErrors", "PVCPrebinderExtenderSlow"}

    async def fires() -> bool:
        await stage.call_extender(b"{")
        return failing <= (await stage.prometheus.firing()).keys()

    await eventually(fires, bool, "requests fail")
    stage.prometheus.fired |= failing
    await stage.prometheus.resolves(*failing)


async def a_write_does_not_end(stage: Stage) -> None:
    """The API server takes longer over it than a work queue should."""
    fault = Fault(writes_of("/persistentvolumes/"), delay=8, only_delay=True, times=1000)
    stage.proxy.faults.append(fault)
    await stage.world.volumes(stage.disks, stage.world.volume("late", stage.disks, zone="zone-a"))
    await stage.world.pod("late", {"late": claim_spec(stage.disks)}, gated=True)
    await stage.prometheus.fires("PVCPrebinderWorkqueueStuck")
    stage.proxy.faults.remove(fault)
    await stage.world.all_run("late")
    await stage.prometheus.resolves("PVCPrebinderWorkqueueStuck")


async def events_are_rejected(stage: Stage) -> None:
    """As where the right to write them is missing."""
    fault = Fault(writes_of("/events"), status=403, reason="Forbidden", times=1000)
    stage.proxy.faults.append(fault)
    await stage.world.pod("unheard", {"unheard": claim_spec(stage.disks, "1Ti")}, gated=True)
    await stage.prometheus.fires("PVCPrebinderEventsDropped")
    stage.proxy.faults.remove(fault)
    await stage.world.admin.delete("Pod", "unheard", stage.world.namespace)
    await stage.world.admin.delete("PersistentVolumeClaim", "unheard", stage.world.namespace)
    await stage.prometheus.resolves("PVCPrebinderEventsDropped")


async def watch_events_are_lost(stage: Stage) -> None:
    lost = stage.world.name("lost")

    def hides(call: Call, seen: dict[str, Any]) -> dict[str, Any] | None:
        return None if call.watches and seen["metadata"]["name"] == lost else seen

    stage.proxy.distort = hides
    stage.proxy.drop_watches()
    await stage.world.volumes(stage.disks, stage.world.volume("lost", stage.disks, zone="zone-a"))
    await stage.prometheus.fires("PVCPrebinderCacheDrift", seconds=DRIFT_SECONDS)
    stage.proxy.distort = None
    stage.proxy.drop_watches()
    await stage.prometheus.resolves("PVCPrebinderCacheDrift", seconds=DRIFT_SECONDS)


async def the_lease_is_stolen(stage: Stage) -> None:
    stolen = {"spec": {"holderIdentity": "thief", "leaseTransitions": 99}}
    await stage.world.admin.patch("Lease", ACCOUNT, stolen, stage.world.namespace)
    await stage.prometheus.fires("PVCPrebinderNoLeader")
    # The thief does not renew it.
    await stage.prometheus.resolves("PVCPrebinderNoLeader")


async def a_replica_may_read_nothing(stage: Stage) -> None:
    world = stage.world
    bare = await world.cluster.kubeconfig_for_service_account(world.namespace, "default")
    replica = await start_controller(world, kubeconfig=bare, wait=False)
    await stage.prometheus.scrape(CONTROLLER, stage.controller.metrics_address, replica.metrics_address)
    await stage.prometheus.fires("PVCPrebinderCacheStale")
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    binding = {**about, "metadata": {"name": world.name("reads")}, "roleRef": role, "subjects": [subject]}
    await world.cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump(binding))
    await stage.prometheus.resolves("PVCPrebinderCacheStale")
    await stage.prometheus.scrape(CONTROLLER, stage.controller.metrics_address)
    await replica.stop()


async def the_controller_is_gone(stage: Stage) -> None:
    await stage.controller.stop()
    await stage.prometheus.fires("PVCPrebinderDown")
    await stage.controller.start()
    await stage.prometheus.resolves("PVCPrebinderDown", "PVCPrebinderNoLeader")


async def the_extender_is_gone(stage: Stage) -> None:
    rights, flags = await account(stage.world.cluster), (f"--bind-address={LOOPBACK}:{free_ports(1)[0]}",)
    async with running("extender", rights, *flags) as extender:
        await stage.prometheus.scrape(EXTENDER, f"{LOOPBACK}:{extender.port}")
        await extender.stop()
        await stage.prometheus.fires("PVCPrebinderExtenderDown")
    async with running("extender", rights, *flags) as extender:
        await stage.prometheus.scrape(EXTENDER, f"{LOOPBACK}:{extender.port}")
        await stage.prometheus.resolves("PVCPrebinderExtenderDown")
        await stage.prometheus.scrape(EXTENDER)
        await extender.stop()


async def the_scheduler_fails_and_is_gone(stage: Stage) -> None:
    world, good = stage.world, stage.configuration.read_text()
    stage.configuration.write_text(f"{good}  scores: {{BinPack: heavy}}\n")
    await world.admin.create(scheduled_pod(world, "nowhere", nodeSelector={"none": "such"}))
    await stage.prometheus.fires("PVCPrebinderConfigReloadFailed")
    await stage.prometheus.fires("PodScheduleFailuresHigh")
    stage.configuration.write_text(good)
    await world.admin.delete("Pod", "nowhere", world.namespace)
    await stage.prometheus.resolves("PVCPrebinderConfigReloadFailed", "PodScheduleFailuresHigh")
    await stage.scheduler.stop()
    await stage.prometheus.fires("PVCPrebinderSchedulerDown")
    await stage.prometheus.resolves("PVCPrebinderSchedulerDown")
