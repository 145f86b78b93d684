"""Claims and pods as large as the API server accepts do not keep others from being served."""

from typing import Any

from tests.scenarios.environment.bindings import PRODUCT, pairs, writers
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.world import World

REQUIREMENTS = 20_000
"""Some 900 KB of JSON; etcd accepts 1.5 MiB in one request, the tests' client 1 MiB."""


def large() -> list[dict[str, Any]]:
    return [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(REQUIREMENTS)]


async def test_a_claim_with_a_selector_of_a_megabyte_is_rejected_and_others_are_served(world: World) -> None:
    disks = await world.storage_class("prebind")
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"), world.volume("two", disks, zone="zone-a"))
    hostile = claim_spec(disks)
    hostile["selector"] = {"matchExpressions": large()}
    await world.pod("hostile", {"greedy": hostile}, gated=True)
    await world.pod("other", {"data": claim_spec(disks)}, gated=True)
    await world.all_run("other")
    event = await world.event("SelectorTooLarge", "hostile")
    assert "a selector of at most 16,384 bytes" in event["note"]
    assert PRODUCT not in writers((await world.claims())["greedy"])
    assert "data" in await pairs(world)
