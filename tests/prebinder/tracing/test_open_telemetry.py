"""Traces of attempts for pods, as an OTLP receiver gets them."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from binder.reporting.tracing import Tracing
from devcluster.processes.ports import LOOPBACK, free_ports
from prebinder.runtime.logs import JsonFormatter
from prebinder.tracing.open_telemetry import LAST_SECONDS, add_trace_ids, exported
from tests.binder.world import World
from tests.builders import pod
from tests.fakes.objects import claim_object, pod_object, volume_object
from tests.fakes.otlp_receiver import Receiver, facts, otlp_receiver

SERVICE = "pvc-prebinder"


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """As `exported` found them."""
    yield
    for handler in logging.getLogger().handlers:
        handler.removeFilter(add_trace_ids)


async def traced(receiver: Receiver, work: Callable[[Tracing], Awaitable[None]]) -> None:
    """Do the work; return when what was traced has arrived, which takes a thread beside the receiver's loop."""
    exporting = exported(receiver.endpoint, SERVICE)
    await work(exporting.__enter__())
    await asyncio.to_thread(exporting.__exit__, None, None, None)


async def serve_a_pod(tracing: Tracing) -> None:
    """A pod needs two volumes of a zone, and gets them."""
    world = World(tracing=tracing)
    world.put(volume_object("a-data", zone="a"), volume_object("a-log", zone="a"))
    world.put(claim_object("data"), claim_object("log"), pod_object("db", ["data", "log"]))
    async with world.process() as process:
        await process.run()
    assert {world.reserved("data"), world.reserved("log")} == {"a-data", "a-log"}


async def test_the_trace_of_a_pod_holds_its_plan_its_probes_and_its_writes() -> None:
    async with otlp_receiver() as receiver:
        await traced(receiver, serve_a_pod)
    (write,) = receiver.named("write")
    (attempt,) = (span for span in receiver.named("attempt") if span.span_id == write.parent_span_id)
    assert facts(attempt.attributes) == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "db",
        "k8s.pod.uid": "uid-pods-default/db",
    }
    steps = receiver.below(attempt)
    assert [step.name for step in steps] == ["plan", "probe", "write"]
    assert facts(steps[0].attributes)["decision"] == "reserve"
    assert facts(steps[0].attributes)["volumes"] == ["a-data", "a-log"]
    probes = [facts(span.attributes) for span in receiver.below(steps[1])]
    assert [(each["csi.volume"], each["health"]) for each in probes] == [
        ("handle-a-data", "Healthy"),
        ("handle-a-log", "Healthy"),
    ]
    requests = receiver.below(write)
    assert [span.name for span in requests] == ["PATCH persistentvolumes"] * 2 + ["PATCH persistentvolumeclaims"] * 2
    assert {facts(span.attributes)["http.response.status_code"] for span in requests} == {200}
    assert {span.trace_id for span in (*steps, *requests)} == {attempt.trace_id}
    assert all(write.start_time_unix_nano <= span.start_time_unix_nano for span in requests)


async def test_nothing_but_attempts_begins_a_trace() -> None:
    async with otlp_receiver() as receiver:
        await traced(receiver, serve_a_pod)
    assert {span.name for span in receiver.spans if not span.parent_span_id} == {"attempt"}


async def test_an_error_ends_a_span_with_its_kind_and_without_credentials() -> None:
    async def fail(tracing: Tracing) -> None:
        with pytest.raises(RuntimeError), tracing.attempt(pod()):
            raise RuntimeError("Authorization: Bearer abc123.def456")

    async with otlp_receiver() as receiver:
        await traced(receiver, fail)
    (span,) = receiver.spans
    assert facts(span.attributes)["error.type"] == "RuntimeError"
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message == "Authorization: Bearer ***"
    assert list(span.events) == []


async def test_the_variables_of_opentelemetry_name_the_service_and_choose_what_is_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=binder-eu,k8s.cluster.name=eu-1")
    async with otlp_receiver() as receiver:
        await traced(receiver, serve_a_pod)
    assert receiver.resources[0].items() >= {"service.name": "binder-eu", "k8s.cluster.name": "eu-1"}.items()
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with otlp_receiver() as receiver:
        await traced(receiver, serve_a_pod)
    assert receiver.spans == []


async def test_lines_logged_during_an_attempt_carry_its_trace() -> None:
    lines: list[dict[str, object]] = []

    async def log_a_line(tracing: Tracing) -> None:
        with tracing.attempt(pod()):
            lines.append(logged())
        lines.append(logged())

    async with otlp_receiver() as receiver:
        await traced(receiver, log_a_line)
    (span,) = receiver.spans
    assert lines[0]["trace_id"] == span.trace_id.hex()
    assert lines[0]["span_id"] == span.span_id.hex()
    assert "trace_id" not in lines[1]


def logged() -> dict[str, object]:
    record = logging.makeLogRecord({"name": "binder", "msg": "Reserved"})
    assert add_trace_ids(record)
    line: dict[str, object] = json.loads(JsonFormatter().format(record))
    return line


async def test_a_receiver_that_does_not_respond_holds_up_no_pod_and_not_the_end() -> None:
    (port,) = free_ports(1)
    exporting = exported(f"http://{LOOPBACK}:{port}", SERVICE)
    began = time.monotonic()
    await serve_a_pod(exporting.__enter__())
    await asyncio.to_thread(exporting.__exit__, None, None, None)
    assert time.monotonic() - began < LAST_SECONDS + 5
