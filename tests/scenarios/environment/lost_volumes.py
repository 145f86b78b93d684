"""Volumes that are gone although a claim is bound to them, which Kubernetes prevents by a finalizer."""

from tests.scenarios.environment.world import World


async def let_go(world: World, word: str) -> bool:
    """Take the finalizer away until the volume is gone: the controller manager gives it back."""
    name = world.name(word)
    if await world.admin.find("PersistentVolume", name) is None:
        return True
    await world.admin.patch("PersistentVolume", name, {"metadata": {"finalizers": None}})
    return await world.admin.find("PersistentVolume", name) is None
