"""The fixtures of the stories: rights as shipped, two drivers, one controller for all stories that do not disturb it,
separate worlds.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import PREFIX
from tests.scenarios.environment.drivers import Backing, Directories, Mock, endpoint_flag, start_directories, start_mock
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import Controller, apply_manifests, start_controller
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler
from tests.scenarios.processes.why_command import Asker


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def admin(cluster: DevCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster) as admin:
        yield admin


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rights(cluster: DevCluster) -> None:
    """The ServiceAccount and roles of manifests/base, with the components of all modes."""
    await apply_manifests(cluster)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def directories(cluster: DevCluster) -> Directories:
    return await start_directories(cluster, "directory.csi.example")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mock(cluster: DevCluster) -> Mock:
    return await start_mock(cluster, "mock.csi.example")


@pytest.fixture(params=["directory", "mock"])
def backing(request: pytest.FixtureRequest, directories: Directories, mock: Mock) -> Backing:
    """Each driver in turn."""
    return directories if request.param == "directory" else mock


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def controller(
    cluster: DevCluster, admin: Admin, rights: None, directories: Directories, mock: Mock
) -> AsyncIterator[Controller]:
    """The controller that all stories with a `world` share. Do not disturb it; use `own_world` for that."""
    home = World(cluster, admin, PREFIX)
    await home.open()
    running = await start_controller(home, endpoint_flag(directories.driver), endpoint_flag(mock.driver))
    yield running
    await running.stop()


@pytest_asyncio.fixture
async def world(cluster: DevCluster, admin: Admin, controller: Controller) -> AsyncIterator[World]:
    """A world that the shared controller manages. At the end the invariants must hold in it."""
    async with lived_in(World(cluster, admin, PREFIX)) as world:
        yield world


@pytest_asyncio.fixture
async def own_world(cluster: DevCluster, admin: Admin, rights: None) -> AsyncIterator[World]:
    """A world with an annotation prefix of its own, for controllers that the story starts, disturbs and stops
    itself.
    """
    async with lived_in(World(cluster, admin)) as world:
        yield world


@pytest_asyncio.fixture
async def scheduler(cluster: DevCluster, own_world: World) -> AsyncIterator[InProcessScheduler]:
    """A standalone scheduler in the test's own process, for pods that name the story's namespace as their scheduler."""
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix) as running:
        yield running


@pytest.fixture
def asker(own_world: World, capsys: pytest.CaptureFixture[str]) -> Asker:
    """Asks `why` in the story's own world."""
    return Asker(own_world, capsys)
