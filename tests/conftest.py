"""Fixtures for tests on a real control plane. Asking for one of them marks the test `cluster`."""

import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import spread

# No test depends on the speed of the machine.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores, four at most: stories wait for Leases, drivers and timers more than they work."""
    return min(4, (os.cpu_count() or 1) + 2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip what is run only when it is named: the stories on a real node, which need root and an image (`make e2e`),
    and those with CSI sidecars or an autoscaler, which take minutes to build (`make sidecars`, `make autoscaler`).
    """
    tests = Path(__file__).parent
    if collection_path not in {tests / "e2e", tests / "scenarios" / "sidecars", tests / "scenarios" / "autoscaler"}:
        return None
    named = [Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(collection_path in (path, *path.parents) for path in named) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()) or tests / "scenarios" in item.path.parents:
            item.add_marker(pytest.mark.cluster)
    # Stories wait for Leases and drivers, and the house rules read every file: started first, they do not keep one
    # worker busy at the end.
    items.sort(key=lambda item: (tests / "scenarios" not in item.path.parents, item.path.parent != tests))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test runs in its own process configures logging as if it were alone there."""
    loggers = [logging.getLogger(name) for name in ("", "prebinder", "why", "scheduler", "binder", "csi", "kube")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    for handler in [handler for handler in logging.root.handlers if type(handler) is logging.StreamHandler]:
        logging.root.removeHandler(handler)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(pytestconfig: pytest.Config) -> AsyncIterator[DevCluster]:
    """A control plane with kwok and six nodes, two in each of zone-a, zone-b and zone-c, shared by the whole session.

    Tests use namespaces, storage classes and volumes of their own, and leave nodes and components as they found them.
    """
    # A first build takes minutes: its progress messages must not be captured.
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        shared = DevCluster()
        await shared.start()
    await shared.add_nodes(spread(6))
    yield shared
    await shared.stop()


@pytest.fixture(scope="session")
def kubeconfig(cluster: DevCluster) -> Path:
    """The administrator's kubeconfig of the shared cluster."""
    return cluster.kubeconfig
