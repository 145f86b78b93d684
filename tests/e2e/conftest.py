"""A cluster with a real node, and on it the product as a user installs it: the image, the manifests, nothing else.

`make e2e` builds the image first and passes its location.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from tests.e2e.driver import Driver, install_driver
from tests.e2e.installation import ensure_installed, is_installed, remove
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import PREFIX
from tests.scenarios.environment.world import World, lived_in

ARCHIVE = "PVC_PREBINDER_IMAGE"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real(pytestconfig: pytest.Config) -> AsyncIterator[DevCluster]:
    archive = os.environ.get(ARCHIVE)
    assert archive, f"{ARCHIVE} names no archive of the image; use `make e2e`"
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        cluster = DevCluster(Options(kwok=False, real_node=True))
        await cluster.start()
    try:
        await cluster.node.load(Path(archive))
        yield cluster
    finally:
        await cluster.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def admin(real: DevCluster) -> AsyncIterator[Admin]:
    async with Admin(real) as admin:
        yield admin


@pytest_asyncio.fixture
async def installed(real: DevCluster) -> None:
    """Base with the rights of every mode and the policy that gates, ready."""
    await ensure_installed(real)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def driver(real: DevCluster) -> Driver:
    """The directory driver as a CSI node plugin, registered at the kubelet."""
    return await install_driver(real)


@pytest_asyncio.fixture
async def world(real: DevCluster, admin: Admin, installed: None) -> AsyncIterator[World]:
    """The story's own namespace, classes and volumes. At the end the invariants must hold among them."""
    async with lived_in(World(real, admin, PREFIX)) as world:
        yield world


@pytest_asyncio.fixture
async def emptied(real: DevCluster, driver: Driver) -> None:
    """Nothing of the product is installed."""
    if await is_installed(real):
        await remove(real)


@pytest_asyncio.fixture
async def bare_world(real: DevCluster, admin: Admin, emptied: None) -> AsyncIterator[World]:
    async with lived_in(World(real, admin, PREFIX)) as world:
        yield world
