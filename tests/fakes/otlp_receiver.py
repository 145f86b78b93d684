"""A receiver of traces by OTLP over gRPC, as a collector is: real requests, decoded by OpenTelemetry's own stubs."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from devcluster.processes.ports import LOOPBACK


@dataclass
class Receiver:
    """What arrived so far."""

    endpoint: str
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, object]] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def below(self, parent: Span) -> list[Span]:
        """Return the children of a span, in the order in which they began."""
        children = (span for span in self.spans if span.parent_span_id == parent.span_id)
        return sorted(children, key=lambda span: span.start_time_unix_nano)


class _Service(services.TraceServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def Export(  # noqa: N802 - the method's name in the service
        self, request: messages.ExportTraceServiceRequest, context: object
    ) -> messages.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            self._receiver.resources.append(facts(resource.resource.attributes))
            for scope in resource.scope_spans:
                self._receiver.spans.extend(scope.spans)
        return messages.ExportTraceServiceResponse()


def facts(attributes: Iterable[KeyValue]) -> dict[str, object]:
    """Return attributes as plain values."""
    values: dict[str, object] = {}
    for pair in attributes:
        kind = str(pair.value.WhichOneof("value"))
        texts = [each.string_value for each in pair.value.array_value.values]
        values[pair.key] = texts if kind == "array_value" else getattr(pair.value, kind)
    return values


@asynccontextmanager
async def otlp_receiver() -> AsyncIterator[Receiver]:
    """Receive while inside."""
    server = grpc.aio.server()
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    receiver = Receiver(f"http://{LOOPBACK}:{port}")
    services.add_TraceServiceServicer_to_server(_Service(receiver), server)
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(None)
