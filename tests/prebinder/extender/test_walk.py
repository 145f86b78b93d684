"""The walk of docs/architecture.md from an extender request to its answer, against the call stacks of a real one.

A request is handed on until a rule decides about a node; an event, until what the rules read is up to date.
"""

from itertools import pairwise

from kube.objects.model import Record
from scheduler.extender.cache import Tightest, VolumeLabels
from scheduler.extender.rules import fit_points, place_points, pod_claims, rejection, suspect_places
from tests.builders import claim, volume
from tests.prebinder.call_stacks import Stack, stacks_at
from tests.prebinder.running_extender import running_extender
from tests.scheduler.extender_requests import (
    arguments,
    extender,
    nodes,
    proposed,
    reserved_claim,
    unhealthy_volume,
)
from tests.test_architecture import ARCHITECTURE, FLOWCHARTS, arrows_of, modules_in

EVENT: Stack = ("kube/store/collection", "scheduler/extender/cache")
REQUEST: Stack = (
    "prebinder/serving/connections",
    "prebinder/extender/server",
    "scheduler/extender/extender",
    "scheduler/extender/rules",
)
CLUSTER: list[Record] = [
    *nodes(),
    claim(),
    reserved_claim("logs", "pv-b", zone="b"),
    unhealthy_volume("pv-a", zone="a"),
    volume("pv-b", zone="b"),
]


def test_the_page_draws_every_module_that_hands_something_on() -> None:
    handing_on = {*EVENT, *REQUEST}
    assert modules_in(FLOWCHARTS[1], shapes="[") == handing_on
    assert f"the {len(handing_on)} that hand a request or an event on" in ARCHITECTURE
    arrows = {(source, target) for source, _, _, target in arrows_of(FLOWCHARTS[1])}
    assert {*pairwise(EVENT), *pairwise(REQUEST)} <= arrows


def test_an_event_reaches_what_is_kept_ready() -> None:
    with stacks_at(VolumeLabels.volume_changed, Tightest.volume_changed) as stacks:
        extender(CLUSTER)
    assert stacks == {EVENT}


async def test_a_request_of_each_verb_reaches_the_rules() -> None:
    names = ["n1", "n3"]
    async with running_extender(extender(CLUSTER)) as server:
        with stacks_at(pod_claims, suspect_places, rejection, fit_points, place_points) as stacks:
            await server.post("filter", arguments(names))
            await server.post("prioritize", arguments(names, claims=["data", "logs"]))
            await server.post("preempt", proposed({"n1": ["u1"], "n3": ["u3"]}))
    assert [code for _, code in server.counts.codes] == [200] * 3
    assert stacks == {REQUEST}
