"""A volume whose claim was deleted before the bind is free again only if every event shows that it was never used."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from binder.model.decision import Mode
from binder.writers.unbound_proofs import PastBind, UnboundProofs
from kube.objects.model import Claim, Pod, Volume
from kube.store.store import Store
from tests.binder.world import World, bind
from tests.builders import attachment, claim, pod, reference, volume
from tests.fakes.objects import claim_object, pod_object, volume_object

UID: Final = "uid-data"
TO_DATA: Final = reference("default/data", UID)


def seen(version: int, **changes: Any) -> Volume:
    usual: dict[str, Any] = {"name": "pv-1", "claim": TO_DATA, "phase": "Available", "resource_version": version}
    return volume(**usual | changes)


def user(node: str = "") -> Pod:
    return pod("web", claims=["data"], node=node)


def named(volume_name: str) -> Claim:
    return claim("data", uid=UID, volume_name=volume_name, resource_version=11)


STEPS: Final = [
    pytest.param(lambda _: None, PastBind.NEVER, id="nothing else happened"),
    pytest.param(
        lambda store: store.volumes.upsert(seen(9, phase="Bound")), PastBind.NEVER, id="bound before our write"
    ),
    pytest.param(lambda store: store.volumes.upsert(seen(11, phase="Bound")), PastBind.POSSIBLY, id="bound"),
    pytest.param(lambda store: store.volumes.upsert(seen(11, phase="Failed")), PastBind.POSSIBLY, id="failed"),
    pytest.param(
        lambda store: store.volumes.upsert(seen(11, claim=reference("default/data", "else"))),
        PastBind.POSSIBLY,
        id="names another claim",
    ),
    pytest.param(lambda store: store.volumes.upsert(seen(11, uid="anew")), PastBind.POSSIBLY, id="recreated"),
    pytest.param(lambda store: store.volumes.delete("pv-1", 11), PastBind.POSSIBLY, id="deleted, or unreadable"),
    pytest.param(lambda store: store.volumes.replace([seen(11)], "11"), PastBind.POSSIBLY, id="volumes listed anew"),
    pytest.param(lambda store: store.claims.replace([], "11"), PastBind.POSSIBLY, id="claims listed anew"),
    pytest.param(lambda store: store.pods.replace([], "11"), PastBind.POSSIBLY, id="pods listed anew"),
    pytest.param(lambda store: store.attachments.replace([], "11"), PastBind.POSSIBLY, id="attachments listed anew"),
    pytest.param(lambda store: store.claims.upsert(named("pv-1")), PastBind.POSSIBLY, id="the claim named it"),
    pytest.param(
        lambda store: store.claims.upsert(named("pv-2")), PastBind.POSSIBLY, id="the claim got another volume"
    ),
    pytest.param(lambda store: store.claims.upsert(named("")), PastBind.NEVER, id="the claim changed"),
    pytest.param(lambda store: store.claims.delete("default/data", 11), PastBind.NEVER, id="the claim was deleted"),
    pytest.param(lambda store: store.pods.upsert(user("node-1")), PastBind.POSSIBLY, id="its pod got a node"),
    pytest.param(lambda store: store.pods.upsert(user()), PastBind.NEVER, id="its pod waits"),
    pytest.param(
        lambda store: store.attachments.upsert(attachment("pv-1", "node-1")), PastBind.POSSIBLY, id="attached"
    ),
    pytest.param(
        lambda store: store.attachments.upsert(attachment("pv-2", "node-1")), PastBind.NEVER, id="another one attached"
    ),
]


@pytest.mark.parametrize(("happens", "expected"), STEPS)
def test_a_released_volume_was_never_bound(happens: Callable[[Store], None], expected: PastBind) -> None:
    store = Store()
    proofs = UnboundProofs(store)
    with proofs.following():
        proofs.committed(seen(10))
        happens(store)
        released = seen(12, phase="Released")
        store.volumes.upsert(released)
        assert proofs.bound(released, store.snapshot()) is expected


def test_an_event_that_a_direct_response_overtook_counts() -> None:
    """The store drops it as older; it is the one that shows the phase Bound."""
    store = Store()
    proofs = UnboundProofs(store)
    with proofs.following():
        proofs.committed(seen(10))
        released = seen(12, phase="Released")
        store.volumes.remember(released)
        assert proofs.bound(released, store.snapshot()) is PastBind.NOT_SEEN_YET
        store.volumes.upsert(seen(11, phase="Bound"))
        store.volumes.upsert(released)
        assert proofs.bound(released, store.snapshot()) is PastBind.POSSIBLY


def test_nothing_is_kept_of_volumes_that_are_bound_or_gone() -> None:
    store = Store()
    proofs = UnboundProofs(store)
    with proofs.following():
        for number in range(10):
            proofs.committed(seen(10, name=f"pv-{number}"))
        for number in range(5):
            store.volumes.upsert(seen(11, name=f"pv-{number}", phase="Bound"))
        for number in range(5, 10):
            store.volumes.delete(f"pv-{number}", 11)
    assert proofs == UnboundProofs(store)


def committed() -> World:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    return world


def deleted_before_the_bind(world: World) -> None:
    """The claim is deleted, and the PV controller sets the volume to Released before we have done anything."""
    world.server.remove("pods", "default/web")
    world.server.remove("persistentvolumeclaims", "default/data")
    world.server.change("persistentvolumes", "pv-1", lambda document: document["status"].update(phase="Released"))


async def test_a_volume_whose_claim_is_deleted_before_the_bind_serves_the_next_claim() -> None:
    world = committed()
    async with world.process() as process:
        await process.run()
        deleted_before_the_bind(world)
        await process.run()
        assert "claimRef" not in world.volume("pv-1")["spec"]
        assert "annotations" not in world.volume("pv-1")["metadata"]
        assert process.sink.reasons_of("PersistentVolume", "pv-1") == ["VolumeMadeAvailable"]


async def test_a_volume_that_was_bound_stays_released() -> None:
    world = committed()
    async with world.process() as process:
        await process.run()
        bind(world, "data", "pv-1")
        deleted_before_the_bind(world)
        await process.run()
        assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
        assert process.sink.reasons_of("PersistentVolume", "pv-1") == ["VolumeReleased"]


async def test_a_leader_that_did_not_commit_the_volume_leaves_it_released_and_says_so() -> None:
    world = committed()
    async with world.process() as process:
        await process.run()
    async with world.process(transition=2) as process:
        deleted_before_the_bind(world)
        await process.run()
        assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
        assert world.annotations("persistentvolumes", "pv-1") == {}
        assert process.sink.reasons_of("PersistentVolume", "pv-1") == ["VolumeReleased"]


async def test_the_claim_recreated_under_its_name_gets_the_volume_again() -> None:
    world = committed()
    async with world.process() as process:
        await process.run()
        deleted_before_the_bind(world)
        world.put(claim_object("data", uid="uid-anew"), pod_object("web", ["data"], gated=True))
        await process.run()
        available = {"phase": "Available"}
        world.server.change("persistentvolumes", "pv-1", lambda document: document["status"].update(available))
        await process.run(70)
        assert world.volume("pv-1")["spec"]["claimRef"]["uid"] == "uid-anew"
