"""Switches tracing on for a process, if its settings say so; otherwise nothing of OpenTelemetry is loaded."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from binder.reporting.tracing import UNTRACED, Tracing
from prebinder.config.settings import TracingSettings
from prebinder.errors import CommandError

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
"""The first that is set counts (OpenTelemetry's specification of its OTLP exporter)."""


@contextmanager
def tracing(settings: TracingSettings, service: str) -> Iterator[Tracing]:
    """Yield what records the traces of the service; at the end those that are not sent yet are sent.

    Raises CommandError if that is impossible. Enter it when logs are configured.
    """
    if not settings.on:
        yield UNTRACED
        return
    reject_other_protocols(os.environ)
    try:
        from prebinder.tracing.open_telemetry import exported  # noqa: PLC0415 - see above
    except ImportError as error:
        message = f'tracing needs more packages, pip install "pvc-prebinder[tracing]", or is to be off: {error}'
        raise CommandError(message) from error

    with exported(settings.endpoint, service) as traces:
        yield traces


def reject_other_protocols(environment: Mapping[str, str]) -> None:
    """Raise CommandError if the environment, which a whole cluster may share, wants OTLP by anything but gRPC."""
    name = next((name for name in _PROTOCOLS if environment.get(name)), None)
    if name is not None and environment[name] != "grpc":
        raise CommandError(
            f'{name} is "{environment[name]}", and traces are sent by gRPC only:'
            ' set it to "grpc", and name the port of the receiver for gRPC, usually 4317'
        )
