"""The port of traces by OpenTelemetry's SDK, which reads its own variables (OTEL_TRACES_SAMPLER, OTEL_BSP_..., ...).

Spans wait in a queue of limited length and are sent by a thread of the SDK: a receiver that does not respond costs
spans, never a pod's time.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Timer
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode

from binder.reporting.tracing import NO_FACTS, UNRECORDED, Facts, Span, Tracing
from kube.objects.model import Pod
from kube.redaction import redacted
from prebinder.build import build_facts

LAST_SECONDS: Final = 3.0
"""How long spans may still be sent at the end. A pod has 30 seconds to stop, most of them for its work."""
_SCOPE: Final = "pvc-prebinder"


@contextmanager
def exported(endpoint: str | None, service: str) -> Iterator[Tracing]:
    """Yield the port; spans go to the endpoint, or where OTEL_EXPORTER_OTLP_ENDPOINT says. Log lines get their ids."""
    exporter = OTLPSpanExporter(endpoint=endpoint)
    provider = TracerProvider(resource=_resource(service), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    for handler in logging.getLogger().handlers:
        handler.addFilter(add_trace_ids)
    try:
        yield OpenTelemetry(provider)
    finally:
        _shut_down(provider, exporter)


class OpenTelemetry:
    """Port `binder.reporting.tracing.Tracing`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(_SCOPE, build_facts()["version"])

    @contextmanager
    def attempt(self, pod: Pod) -> Iterator[Span]:
        about: Facts = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
        }
        with self._span("attempt", about, Context()) as span:
            yield span

    def step(self, name: str, facts: Facts = NO_FACTS, *, remote: bool = False) -> AbstractContextManager[Span]:
        if not trace.get_current_span().is_recording():
            return nullcontext(UNRECORDED)
        return self._span(name, facts, kind=SpanKind.CLIENT if remote else SpanKind.INTERNAL)

    @contextmanager
    def _span(
        self, name: str, facts: Facts, parent: Context | None = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> Iterator[Span]:
        # Errors are noted here, because their texts may contain credentials.
        begun = self._tracer.start_as_current_span(
            name, parent, kind, dict(facts), record_exception=False, set_status_on_exception=False
        )
        with begun as span:
            try:
                yield _Noted(span)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR, redacted(str(error))))
                raise


class _Noted:
    """Port `binder.reporting.tracing.Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, facts: Facts) -> None:
        self._span.set_attributes(dict(facts))


def add_trace_ids(record: logging.LogRecord) -> bool:
    """A filter of log lines that adds `trace_id` and `span_id`, as OpenTelemetry names them, to those of a trace."""
    context = trace.get_current_span().get_span_context()
    if context.trace_flags.sampled:
        record.trace_id = trace.format_trace_id(context.trace_id)
        record.span_id = trace.format_span_id(context.span_id)
    return True


def _resource(service: str) -> Resource:
    """Return what the traces say of this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it."""
    ours = Resource({"service.name": service, "service.version": build_facts()["version"]})
    return Resource.create().merge(ours).merge(OTELResourceDetector().detect())


def _shut_down(provider: TracerProvider, exporter: SpanExporter) -> None:
    """Send what waits; a receiver that does not respond holds up the end for a limited time only."""
    deadline = Timer(LAST_SECONDS, exporter.shutdown)
    deadline.daemon = True
    deadline.start()
    try:
        provider.shutdown()
    finally:
        deadline.cancel()
