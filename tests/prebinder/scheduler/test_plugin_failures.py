"""A plugin of another distribution that raises while the scheduler runs."""

import logging
from dataclasses import replace

import pytest

from binder.matching.rejection import Reason
from prebinder.metrics.scheduler import SchedulerInstruments
from prebinder.scheduler.plugin_failures import PluginFailures
from scheduler.framework.config import Configuration
from scheduler.framework.plugin import Filter, NodeRule
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.scheduler_in_memory import NAME, Desk, pod


class Moody(Filter):
    """Cannot bear a label."""

    name = "Moody"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if info.pod.labels:
            raise KeyError("mood")
        return None


async def test_it_costs_its_pod_the_attempt_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    failures, instruments = PluginFailures(), SchedulerInstruments("lease", [], builders.EPOCH)
    failures.counted.append(instruments.attempts.plugin_failed)
    desk, data = Desk(builders.node("n1")), default_data(NAME)
    profile = build(replace(data, filters=(*data.filters, "Moody")), REGISTRY.with_installed([Moody], failures))
    desk.configuration.current = Configuration({NAME: profile})
    with caplog.at_level(logging.WARNING):
        async with desk.running():
            desk.add(pod("bad", labels={"a": "b"}, priority=10), pod("good"))
            await settle()
            assert desk.binder.nodes == {"good": "n1"}
            assert desk.status.last["default/bad"].message == "plugin Moody failed in Filter: KeyError: 'mood'"
            assert desk.metrics.failures[Reason.PLUGIN_FAILED] == 1
            await desk.clock.advance(5)
            assert desk.metrics.failures[Reason.PLUGIN_FAILED] > 1
            desk.add(pod("bad", resource_version=2))
            await desk.clock.advance(10)
    assert desk.binder.nodes == {"good": "n1", "bad": "n1"}
    assert desk.evictions.evicted == []
    assert [(record.message, record.__dict__["plugin"]) for record in caplog.records] == [("Plugin failed", "Moody")]
    failed = 'pvc_prebinder_scheduler_plugin_failures_total{extension_point="Filter",plugin="Moody"}'
    rendered = next(line for line in _samples(instruments) if line.startswith(failed))
    assert float(rendered.split()[-1]) == desk.metrics.failures[Reason.PLUGIN_FAILED]


class Lonely(Filter):
    """Cannot bear a cluster without pods: the one in which a victim is gone."""

    name = "Lonely"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not any(state.pods for state in cluster.nodes):
            raise KeyError("nobody")
        return None


async def test_no_pod_is_evicted_for_a_filter_that_cannot_decide_whether_it_helps() -> None:
    desk, data = Desk(builders.node("n1")), default_data(NAME)
    registry = REGISTRY.with_installed([Lonely], PluginFailures())
    desk.configuration.current = Configuration(
        {NAME: build(replace(data, filters=(*data.filters, "Lonely")), registry)}
    )
    desk.evictions.accepts = True
    desk.store.pods.upsert(pod("low", "6", node="n1"))
    async with desk.running():
        desk.add(pod("high", "6", priority=10))
        await settle()
        assert desk.status.last["default/high"].message == "plugin Lonely failed in Filter: KeyError: 'nobody'"
    assert desk.evictions.evicted == []


def _samples(instruments: SchedulerInstruments) -> list[str]:
    from prometheus_client import generate_latest

    return generate_latest(instruments.registry).decode().splitlines()
