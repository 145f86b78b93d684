"""When OpenTelemetry is loaded, and what is said if traces cannot be sent."""

import subprocess
import sys

import pytest

from prebinder.config.settings import TracingSettings
from prebinder.errors import CommandError
from prebinder.tracing.start import reject_other_protocols

OFF = """\
import sys
import prebinder.controller.process
from prebinder.config.settings import TracingSettings
from prebinder.tracing.start import tracing
with tracing(TracingSettings(), "service") as traces:
    from binder.reporting.tracing import UNTRACED
    assert traces is UNTRACED
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
LACKING = """\
import sys
sys.modules["opentelemetry"] = None
from prebinder.config.settings import TracingSettings
from prebinder.tracing.start import tracing
with tracing(TracingSettings(enabled=True), "service"):
    pass
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_nothing_of_opentelemetry_is_loaded_while_tracing_is_off() -> None:
    off = ended(OFF)
    assert off.returncode == 0, off.stderr


def test_a_controller_without_the_packages_says_how_to_get_them() -> None:
    lacking = ended(LACKING)
    assert 'pip install "pvc-prebinder[tracing]"' in lacking.stderr.splitlines()[-1]


def test_another_protocol_is_rejected_with_the_variable_that_wants_it() -> None:
    environment = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    with pytest.raises(CommandError, match=r'OTEL_EXPORTER_OTLP_PROTOCOL is "http/protobuf".*4317'):
        reject_other_protocols(environment)
    reject_other_protocols({**environment, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})


@pytest.mark.parametrize(
    "endpoint", ["collector:4317", "http://collector", "grpc://collector:4317", "http://a:4317/v1"]
)
def test_an_address_that_is_no_receivers_is_rejected(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint of traces must be http://HOST:PORT"):
        TracingSettings(endpoint=endpoint)


def test_an_endpoint_switches_tracing_on() -> None:
    assert not TracingSettings().on
    assert TracingSettings(endpoint="http://collector:4317").on
