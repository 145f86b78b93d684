"""The page in a real browser."""

import io
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import Page, expect

from kube.client.api import KubeApi
from kube.clock import SystemClock
from prebinder.metrics.unobserved import Unobserved
from tests.prebinder.view.axe import findings, source
from tests.prebinder.view.chromium import launched, opened
from tests.prebinder.view.served_view import Browser, served
from tests.why.view.clusters import Cluster, many, small
from tests.why.view.feeds.test_caller_feed import page as behind_tokens
from tests.why.view.watched_cluster import WatchedCluster
from why.reading.dump import read_dump
from why.view.feeds.cluster_feed import ClusterFeed, Scope
from why.view.feeds.file_feed import FileFeed

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    async with launched() as browser:
        yield browser


@asynccontextmanager
async def shown(
    chromium: Chromium, cluster: Cluster, path: Path, address: str = "", *, dark: bool = False
) -> AsyncIterator[Page]:
    facts = read_dump([cluster.dump(path / "dump.json")], io.BytesIO(), datetime.now(UTC)).facts
    address = f"/{address}"
    async with (
        served(FileFeed(facts, "dump.json")) as server,
        opened(chromium, server.url + address, dark=dark) as page,
    ):
        await page.wait_for_selector(".zone")
        yield page


@asynccontextmanager
async def following(cluster: WatchedCluster) -> AsyncIterator[Browser]:
    feed = ClusterFeed(KubeApi(cluster.as_user()), Scope("production"), SystemClock(), Unobserved())
    async with feed.open(), served(feed) as server:
        yield server


async def picture(page: Page, name: str) -> None:
    """Save a picture for the documents if they are wanted: fonts differ from machine to machine."""
    if os.environ.get("PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        await page.screenshot(path=PICTURES / name)


async def test_zones_nodes_volumes_and_what_waits(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path) as page:
        await expect(page.locator(".zone h2")).to_have_text(["us-east-1a", "us-east-1b", "us-east-1c"])
        await expect(page.locator(".nodes li")).to_have_count(12)
        await expect(page.locator('li[data-node="ip-10-0-2-61"] .badge')).to_have_text("NotReady")
        unhealthy = page.locator('li[data-node="ip-10-0-2-42"] button.cell').first
        await expect(unhealthy).to_have_attribute("aria-label", re_of("Inaccessible: VolumeNotFound, Bound, claim"))
        causes = page.locator("#waiting h3")
        await expect(causes.first).to_have_text(re_of("StorageClassNotFound"))
        chips = page.locator('[data-zone="us-east-1a"] .chip')
        await expect(chips.filter(has_text="shop/orders-0")).to_contain_text("TopologyConflict")
        await expect(page.locator('[data-zone="us-east-1b"] .free tbody tr').first).to_have_text("local-ssd21.6Ti800Gi")
        await expect(page.locator("#link")).to_have_text("From a file")
        await picture(page, "view-light.png")


async def test_a_click_shows_the_text_of_the_command_and_has_an_address(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path, "#/pod/shop/orders-0", dark=True) as page:
        await expect(page.locator("#why")).to_contain_text("✗ pod shop/orders-0 Pending")
        await expect(page.locator(".next code").first).to_have_text("kubectl uncordon ip-10-0-0-18")
        await picture(page, "view-dark.png")
        await page.get_by_role("link", name="shop/data-orders-0").click()
        await expect(page.locator("#details h2")).to_have_text("shop/data-orders-0")
        assert page.url.endswith("#/pvc/shop/data-orders-0")
        await page.go_back()
        await expect(page.locator("#details h2")).to_have_text("shop/orders-0")
        await page.locator('button.cell[data-volume="pv-lost-1"]').click()
        await expect(page.locator("#why")).to_contain_text("pv pv-lost-1")
        await expect(page.locator("#details dl")).to_contain_text("Quarantined")


async def test_everything_can_be_done_by_keyboard(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path) as page:
        await page.keyboard.press("/")
        await page.keyboard.type("orders")
        await expect(page.locator("#results [role=option]").first).to_be_visible()
        await expect(page.locator("#search")).to_have_attribute("aria-expanded", "true")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.locator("#details h2")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("#details")).to_be_hidden()
        await page.locator("#search").fill("")
        first = page.locator('li[data-node="ip-10-0-1-7"] button.cell').first
        await expect(first).to_be_visible()
        await first.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Home"):
            await page.keyboard.press(key)
        below = page.locator('li[data-node="ip-10-0-1-18"] button.cell').first
        await expect(below).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#details h2")).to_have_text(await below.get_attribute("data-volume") or "")
        await page.keyboard.press("Escape")
        await expect(below).to_be_focused()


async def test_each_control_and_volume_has_a_name(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path) as page:
        nameless = await page.evaluate(
            """() => [...document.querySelectorAll('button, a, input')].filter((each) =>
                !each.getAttribute('aria-label') && !each.textContent.trim() && !each.labels?.length).length"""
        )
        assert nameless == 0
        await expect(page.get_by_role("main")).to_be_visible()
        await expect(page.get_by_role("complementary", name="What waits")).to_be_visible()
        await expect(page.get_by_role("region", name="us-east-1a")).to_be_visible()
        await expect(page.locator("#status")).to_have_attribute("aria-live", "polite")


async def test_search_and_states_narrow_what_is_shown(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path) as page:
        await page.get_by_role("button", name="Unhealthy").click()
        shown_cells = page.locator("button.cell:visible")
        await expect(shown_cells).to_have_count(4)
        await page.locator('[data-state="Reserved"]').click()
        await expect(shown_cells).to_have_count(5)
        for name in ("Unhealthy", "Reserved"):
            await page.locator(f'[data-state="{name}"]').click()
        await page.locator("#search").fill("kafka")
        await expect(page.locator("#results [role=option]").first).to_be_visible()
        await expect(page.locator('[data-volume="pv-free-a00"]')).to_be_hidden()
        await expect(shown_cells.first).to_have_attribute("aria-label", re_of("kafka"))
        await page.get_by_role("button", name="Table").click()
        rows = page.locator(".volumes tbody tr")
        assert all("kafka" in text for text in await rows.all_inner_texts())


async def test_what_is_shown_is_in_the_address(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path, "?show=Unhealthy&show=Reserved") as page:
        await expect(page.locator("button.cell:visible")).to_have_count(5)
        await expect(page.locator('[data-state="Reserved"]')).to_have_attribute("aria-pressed", "true")
        await page.locator('[data-state="Reserved"]').click()
        await page.locator("#search").fill("lost")
        await page.get_by_role("button", name="Table").click()
        await page.get_by_role("button", name="Size").click()
        assert page.url.endswith("/?show=Unhealthy&find=lost&view=table&sort=size")
        await page.reload()
        await expect(page.locator("#search")).to_have_value("lost")
        await expect(page.locator(".volumes tbody tr")).to_have_count(2)
        await page.locator(".volumes a").first.click()
        assert "?show=Unhealthy&find=lost&view=table&sort=size#/pv/" in page.url


async def test_the_table_is_ordered_by_any_column(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, small(), tmp_path) as page:
        await page.get_by_role("button", name="Table").click()
        first = page.locator(".volumes tbody tr").first
        await page.get_by_role("button", name="Size").click()
        await expect(page.locator(".volumes th[aria-sort=ascending]")).to_have_text(re_of("Size"))
        await expect(first.locator("td").last).to_have_text("20Gi")
        await page.get_by_role("button", name="Size").click()
        await expect(page.locator(".volumes th[aria-sort=descending]")).to_have_text(re_of("Size"))
        await expect(first.locator("td").last).to_have_text("800Gi")
        await expect(page.get_by_role("button", name="Size")).to_be_focused()


async def test_a_pod_stands_for_its_claims_and_is_offered_no_zone_that_has_too_few_volumes(
    chromium: Chromium, tmp_path: Path
) -> None:
    cluster = small()
    for name in ("data", "log"):
        cluster.claim(f"db/{name}", storage_class="pairs")
    cluster.storage_class("pairs", provisioner="kubernetes.io/no-provisioner")
    cluster.volume("pair-1", "us-east-1a", "pairs")
    cluster.volume("pair-2", "us-east-1b", "pairs")
    cluster.volume("pair-3", "us-east-1b", "pairs")
    cluster.pod("db/db-0", ("data", "log"))
    async with shown(chromium, cluster, tmp_path) as page:
        chips = page.locator('.chip[data-key="pod/db/db-0"]')
        await expect(chips).to_have_count(1)
        await expect(page.locator('[data-zone="us-east-1b"]').locator(chips)).to_be_visible()
        await expect(page.locator('#waiting [data-key="pod/db/db-0"]')).to_be_visible()
        await expect(page.locator('#waiting [data-key="pvc/db/data"]')).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_core_finds_nothing(chromium: Chromium, tmp_path: Path, *, dark: bool) -> None:
    program = source()
    async with shown(chromium, small(), tmp_path, dark=dark) as page:
        assert await findings(page, program) == []
        await page.locator('button.cell[data-volume="pv-lost-1"]').click()
        await expect(page.locator("#why")).to_contain_text("pv pv-lost-1")
        await page.locator("#search").fill("orders")
        assert await findings(page, program) == []
        await page.get_by_role("button", name="Table").click()
        await page.set_viewport_size({"width": 390, "height": 844})
        assert await findings(page, program) == []


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_page_fits_a_phone_a_laptop_and_a_wall(
    chromium: Chromium, tmp_path: Path, width: int, *, dark: bool
) -> None:
    async with shown(chromium, small(), tmp_path, "#/pod/shop/orders-0", dark=dark) as page:
        await page.set_viewport_size({"width": width, "height": 900})
        await expect(page.locator("#why")).to_contain_text("✗ pod shop/orders-0 Pending")
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await picture(page, f"view-{width}-{'dark' if dark else 'light'}.png")


async def test_markup_in_names_is_text(chromium: Chromium, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    cluster = small()
    cluster.node(evil, "<b>zone</b>")
    cluster.storage_class('"><script>alert(2)</script>')
    cluster.volume(f"pv{evil}", "<b>zone</b>", '"><script>alert(2)</script>', health="Degraded", reason=evil)
    cluster.claim(f"ns{evil}/claim{evil}", storage_class=evil)
    async with shown(chromium, cluster, tmp_path) as page:
        await expect(page.locator(".zone h2").filter(has_text="<b>zone</b>")).to_be_visible()
        await page.locator('[data-zone="<b>zone</b>"] button.cell.Degraded').click()
        await expect(page.locator("#details h2")).to_have_text(re_of(evil))
        await page.get_by_role("button", name="Table").click()
        await expect(page.locator(".volumes")).to_contain_text(evil)
        assert await page.locator("main img, main script, main b, #waiting b, #waiting img, #details img").count() == 0


async def test_a_change_shows_by_itself(chromium: Chromium) -> None:
    cluster = WatchedCluster(small().objects)
    more = Cluster()
    more.volume("pv-new", "us-east-1a", "static")
    async with following(cluster) as server, opened(chromium, server.url) as page:
        await expect(page.locator("#link")).to_have_text("Live")
        await page.wait_for_selector('button.cell[data-volume="pv-free-a00"]')
        await expect(page.locator('button.cell[data-volume="pv-new"]')).to_have_count(0)
        cluster.put(more.objects[0])
        await expect(page.locator('button.cell[data-volume="pv-new"]')).to_be_visible()
        cluster.remove("PersistentVolume", "pv-new")
        await expect(page.locator('button.cell[data-volume="pv-new"]')).to_have_count(0)
        cluster.remove("PersistentVolumeClaim", "data/archive")
        await expect(page.locator("#waiting")).to_contain_text("ClaimNotFound")


async def test_from_fifty_nodes_of_a_zone_only_what_needs_attention_is_open(chromium: Chromium, tmp_path: Path) -> None:
    async with shown(chromium, many(1002, 2004), tmp_path) as page:
        await expect(page.locator(".zone h3").filter(has_text="Nodes that need attention")).to_have_count(3)
        assert await page.locator(".nodes li").count() < 60
        await page.get_by_role("button", name="Show all 334 nodes").first.click()
        await expect(page.locator(".zone").first.locator(".nodes li")).to_have_count(334)


async def test_without_a_token_the_page_prompts_for_one(chromium: Chromium) -> None:
    cluster = WatchedCluster(small().objects)
    async with behind_tokens(cluster) as server, opened(chromium, server.url, expected="401") as page:
        await page.locator("#token").fill("shop")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator("#notice")).to_contain_text("nodes (forbidden)")
        await expect(page.locator("#waiting")).to_contain_text("shop/orders-0")


def re_of(text: str) -> "re.Pattern[str]":
    return re.compile(re.escape(text))
