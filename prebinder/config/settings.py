"""Everything a user can set about the controller: grouped, frozen, documented, with defaults that work.

`prebinder.config.config_file` reads these from a file, `prebinder.command_line.flags` from the command line. An invalid
value is rejected when the group is constructed, with ValueError and a sentence for the user.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal

from binder.model.decision import Mode
from binder.model.view import UnknownHealth
from binder.reservation.contract import DEFAULT_PREFIX
from csi.client.endpoint import Endpoint, TlsFiles, parse_endpoint, reject_plain
from kube.configuration.fields import CAMEL_KEYS, AsText
from kube.rules.duration import format_duration, parse_duration
from prebinder.config.annotation_prefix import AnnotationPrefix, reject_bad_prefix
from prebinder.config.feature_gates import FeatureGates

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAME_CHARACTERS: Final = 253
_URL: Final = re.compile(r"https?://[!-~]{1,200}")
_URL_EXPECTED: Final = "http:// or https:// and at most 200 characters without spaces"
"""Bounded, because an Event has room for 1024 bytes."""
_OTLP_URL: Final = re.compile(r"https?://[^\s/]+:[0-9]{1,5}/?")
NAME_EXPECTED: Final = 'lower-case letters, digits, "-" and "."'


Duration = Annotated[timedelta, AsText(parse_duration, format_duration, "a duration like 5m")]
Driver = Annotated[
    Endpoint, AsText(parse_endpoint, lambda endpoint: f"{endpoint.driver}={endpoint}", "NAME=unix:///PATH")
]


StaticMode = Literal[Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE, Mode.OFF]
"""Mode provision is for classes that provision only."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach the API server."""

    __pydantic_config__ = CAMEL_KEYS

    kubeconfig: str | None = None
    """Path of a kubeconfig; default $KUBECONFIG, then ~/.kube/config, then the pod's service account."""
    context: str | None = None
    """Context of the kubeconfig; default its current context."""
    qps: float = 1000.0
    """Requests per second to the API server. High, because a bind takes four small writes and a gate a fifth; API
    Priority and Fairness is the real limit."""
    burst: int = 2000
    """Requests allowed at once beyond `qps`, for pods that arrive together."""

    def __post_init__(self) -> None:
        _require(self.qps > 0, "qps", "more than 0", self.qps)
        _require(self.burst >= 1, "burst", "at least 1", self.burst)

    def at_once(self, most: int) -> int:
        """Return how many are written concurrently: a write that waits for its turn rests on checks that grow old."""
        return max(1, min(most, int(self.qps)))


@dataclass(frozen=True, slots=True)
class BindingSettings(AnnotationPrefix):
    """How claims are handled."""

    __pydantic_config__ = CAMEL_KEYS

    mode: StaticMode = Mode.ANNOTATE
    """`annotate`, `prebind`, `complete` or `off`, for classes without the annotation `mode`. The default only hints."""
    reservation_ttl: Duration = timedelta(minutes=10)
    """How long a reservation is valid. The default is the time kube-scheduler waits for a bind (bindTimeoutSeconds)."""
    concurrency: int = 10
    """Pods whose volumes are written concurrently, at most one for each request a second."""
    annotation_prefix: str = DEFAULT_PREFIX
    """Prefix of the annotations and of the scheduling gate. Extender, scheduler and agents must use the same."""
    allow_delete_policy: bool = False
    """Whether mode complete may bind volumes with reclaim policy Delete: such a volume is deleted with a claim that is
    deleted while it is being bound."""
    dry_run: bool = False
    """Report what would be reserved and write nothing; needs no Lease."""
    once: bool = False
    """End a dry run after its first complete pass."""
    dynamic_mode: Mode | None = None
    """The mode for classes that provision volumes, where `provision` is possible too; by default it is `mode`."""

    def __post_init__(self) -> None:
        minimum = timedelta(seconds=10)  # shorter ones expire before kube-scheduler has seen them
        _require(self.reservation_ttl >= minimum, "reservation TTL", "at least 10s", self.reservation_ttl)
        _require(self.concurrency >= 1, "concurrency", "at least 1", self.concurrency)
        if self.once and not self.dry_run:
            raise ValueError("only a dry run ends after its first pass; add --dry-run (dryRun: true)")
        reject_bad_prefix(self.annotation_prefix)


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Which CSI drivers are probed, and how."""

    __pydantic_config__ = CAMEL_KEYS

    endpoints: tuple[Driver, ...] = ()
    """Drivers to probe, `NAME=unix:///PATH` or `NAME=tcp://HOST:PORT`. Volumes of other drivers are Unsupported."""
    tls_ca: str | None = None
    """CA of the drivers' certificates, for endpoints on TCP; reloaded when the file changes."""
    tls_certificate: str | None = None
    """Client certificate for endpoints on TCP; reloaded when the file changes."""
    tls_key: str | None = None
    """Key of the client certificate."""
    sweep_interval: Duration = timedelta(seconds=60)
    """Every volume is probed once in this time, Available or not: by lists if the driver supports them, else
    individually.
    """
    sweep_rate: float = 200.0
    """Volumes probed per second and driver. The default covers 10,000 volumes within the default interval."""
    in_use_interval: Duration = timedelta(seconds=10)
    """Volumes that pods wait for or use are probed once in this time: by lists if the driver supports them, else as
    many as the rate permits beside the sweeps. At the sweep interval or above they are probed with all others.
    """
    unhealthy_after: int = 1
    """Consecutive unhealthy reports that make a volume unhealthy. One by default: waiting is better than reserving an
    unhealthy volume."""
    healthy_after: int = 1
    """Consecutive healthy reports that make it healthy again; more of them damp a volume that flaps."""

    def __post_init__(self) -> None:
        _require(self.sweep_interval >= timedelta(seconds=1), "sweep interval", "at least 1s", self.sweep_interval)
        _require(self.in_use_interval >= timedelta(seconds=2), "in-use interval", "at least 2s", self.in_use_interval)
        _require(self.sweep_rate > 0, "sweep rate", "more than 0", self.sweep_rate)
        _require(self.unhealthy_after >= 1, "unhealthy after", "at least 1", self.unhealthy_after)
        _require(self.healthy_after >= 1, "healthy after", "at least 1", self.healthy_after)
        drivers = [endpoint.driver for endpoint in self.endpoints]
        twice = sorted({name for name in drivers if drivers.count(name) > 1})
        _require(not twice, "CSI endpoint", "one for each driver", f"several for {', '.join(twice)}")
        for rejection in filter(None, map(reject_plain, self.connections)):
            raise ValueError(f"CSI endpoint {rejection}")

    @property
    def connections(self) -> tuple[Endpoint, ...]:
        """The endpoints, each with what it takes to connect to it."""
        files = (self.tls_ca, self.tls_certificate, self.tls_key)
        return tuple(with_tls(endpoint, *files) for endpoint in self.endpoints)


@dataclass(frozen=True, slots=True)
class HealthSettings(ProbeSettings):
    """Which CSI drivers are probed, and the consequences."""

    __pydantic_config__ = CAMEL_KEYS

    unknown: UnknownHealth = UnknownHealth.BLOCK
    """`block` or `allow`: whether a volume is reserved although its driver could not report its health."""
    max_age: Duration = timedelta(seconds=30)
    """Maximum age of the probe that a reservation relies on; an older one is repeated first."""
    quarantine: bool = False
    """Withhold Available volumes that are Inaccessible or have lost data from all claims until they are healthy
    again.
    """
    quarantine_max_share: float = 0.3
    """Maximum share of a class's Available volumes in quarantine, so that false reports of a driver cannot use it up;
    one volume is always allowed.
    """

    def __post_init__(self) -> None:
        ProbeSettings.__post_init__(self)
        _require(self.max_age > timedelta(), "max age", "more than 0s", self.max_age)
        share = self.quarantine_max_share
        _require(0 < share <= 1, "quarantine max share", "more than 0 and at most 1", share)


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """Whether volumes are held for replicas to come, and how many."""

    __pydantic_config__ = CAMEL_KEYS

    enabled: bool = False
    """Hold volumes for StatefulSets with the annotation `hold-replicas`. Needs the rights of the component `holds`."""
    max_share: float = 0.5
    """Maximum share of a class's free and held volumes that are held, and of those in each zone; one volume is always
    allowed.
    """
    max_per_namespace: int = 50
    """Maximum number of volumes that are held for the StatefulSets of one namespace."""

    def __post_init__(self) -> None:
        _require(0 < self.max_share <= 1, "hold max share", "more than 0 and at most 1", self.max_share)
        _require(self.max_per_namespace >= 1, "hold max per namespace", "at least 1", self.max_per_namespace)


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """Which of several replicas writes."""

    __pydantic_config__ = CAMEL_KEYS

    enabled: bool = True
    """Hold a Lease while writing. Without it nothing prevents a second controller from writing too."""
    namespace: str | None = None
    """Namespace of the Lease; default the pod's own, or kube-system outside a cluster."""
    name: str = "pvc-prebinder"
    """Name of the Lease."""

    def __post_init__(self) -> None:
        _require(not self.name or _is_name(self.name), "Lease name", NAME_EXPECTED, f'"{self.name}"')
        namespace = self.namespace
        _require(namespace is None or _is_name(namespace), "namespace", NAME_EXPECTED, f'"{namespace}"')


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Where metrics and probes are served: `HOST:PORT`, `:PORT` for every address, or `0` for nowhere."""

    __pydantic_config__ = CAMEL_KEYS

    metrics_bind_address: str = ":8080"
    """Address of /metrics."""
    health_bind_address: str = ":8081"
    """Address of /livez and /readyz."""

    def __post_init__(self) -> None:
        parse_address(self.metrics_bind_address)
        parse_address(self.health_bind_address)

    def without_defaults(self) -> "ServingSettings":
        """Return it without the default addresses, which a person's machine may use for something else."""
        fallback = ServingSettings()
        return ServingSettings(
            "0" if self.metrics_bind_address == fallback.metrics_bind_address else self.metrics_bind_address,
            "0" if self.health_bind_address == fallback.health_bind_address else self.health_bind_address,
        )


@dataclass(frozen=True, slots=True)
class EventSettings:
    """What Events say besides the reason and the next step."""

    __pydantic_config__ = CAMEL_KEYS

    docs_base_url: str = ""
    """Where the site that `make docs` builds is served, such as https://docs.example.com/pvc-prebinder. Events about
    pods that get no volumes then end with a link to the page of their reason; by default they have none."""

    def __post_init__(self) -> None:
        url = self.docs_base_url
        _require(not url or _URL.fullmatch(url) is not None, "base URL of the documentation", _URL_EXPECTED, f'"{url}"')


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """Where kube-scheduler calls the extender, see prebinder.extender.process."""

    __pydantic_config__ = CAMEL_KEYS

    bind_address: str = "0"
    """`HOST:PORT`, `:PORT` for every address, or `0` for nowhere. Without a certificate only a loopback address is
    allowed, because whole pods are sent here."""
    tls_cert_file: str | None = None
    """PEM certificate of the server; it, the key and the client CA are reloaded when they change."""
    tls_key_file: str | None = None
    """Key of that certificate."""
    client_ca_file: str | None = None
    """CA of the client certificates that are accepted; without it every client that can connect is accepted."""
    scheduler_names: tuple[str, ...] = ()
    """Only pods with these schedulerNames are evaluated; default all."""
    shutdown_delay_duration: Duration = timedelta(seconds=10)
    """How long it still responds after SIGTERM, while /readyz is 503: until endpoints are updated."""

    def __post_init__(self) -> None:
        parse_address(self.bind_address)
        delay = self.shutdown_delay_duration
        _require(delay >= timedelta(0), "shutdown delay", "0s or more", delay)
        _require(all(self.scheduler_names), "scheduler name", "as in spec.schedulerName of pods", "empty")


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    __pydantic_config__ = CAMEL_KEYS

    format: LogFormat = LogFormat.TEXT
    """`text` or `json`."""
    level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`; debug also shows tracebacks."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Whether attempts for pods are traced. Sampling, headers and certificates: the variables of OpenTelemetry."""

    __pydantic_config__ = CAMEL_KEYS

    enabled: bool = False
    """Send traces to `endpoint`, or where the variables of OpenTelemetry say (OTEL_EXPORTER_OTLP_ENDPOINT)."""
    endpoint: str | None = None
    """Address of an OTLP receiver by gRPC, `http://HOST:4317` or `https://`; switches tracing on."""

    def __post_init__(self) -> None:
        endpoint = self.endpoint
        valid = endpoint is None or _OTLP_URL.fullmatch(endpoint) is not None
        _require(valid, "endpoint of traces", "http://HOST:PORT or https://HOST:PORT", f'"{endpoint}"')

    @property
    def on(self) -> bool:
        return self.enabled or self.endpoint is not None


@dataclass(frozen=True, slots=True)
class Settings:
    __pydantic_config__ = CAMEL_KEYS

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    binding: BindingSettings = field(default_factory=BindingSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
    holds: HoldSettings = field(default_factory=HoldSettings)
    leader_election: LeaderElectionSettings = field(default_factory=LeaderElectionSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    events: EventSettings = field(default_factory=EventSettings)
    extender: ExtenderSettings = field(default_factory=ExtenderSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)

    @property
    def holds_volumes(self) -> bool:
        """Whether volumes are held for replicas to come."""
        return self.holds.enabled and self.feature_gates.holds

    @property
    def served(self) -> ServingSettings:
        """Where metrics and probes are served: a run that ends by itself does not use the default addresses."""
        return self.serving.without_defaults() if self.binding.once else self.serving


@dataclass(frozen=True, slots=True)
class PublishingSettings(AnnotationPrefix):
    """How the agent publishes health."""

    __pydantic_config__ = CAMEL_KEYS

    annotation_prefix: str = DEFAULT_PREFIX
    """Prefix of the annotations; must be the controller's."""

    def __post_init__(self) -> None:
        reject_bad_prefix(self.annotation_prefix)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything a user can set about the agent beside a CSI driver."""

    __pydantic_config__ = CAMEL_KEYS

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    health: ProbeSettings = field(default_factory=ProbeSettings)
    publishing: PublishingSettings = field(default_factory=PublishingSettings)
    leader_election: LeaderElectionSettings = field(default_factory=lambda: LeaderElectionSettings(name=""))
    """Without a name the Lease is named after the driver."""
    serving: ServingSettings = field(default_factory=ServingSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)


def with_tls(endpoint: Endpoint, authority: str | None, certificate: str | None, key: str | None) -> Endpoint:
    """Return a tcp endpoint with the files, if all three are given; a unix socket unchanged."""
    if not endpoint.remote or not (authority and certificate and key):
        return endpoint
    return replace(endpoint, tls=TlsFiles(authority, certificate, key))


def parse_address(text: str) -> tuple[str, int] | None:
    """Return host (empty: every address) and port, None for "0"; ValueError with a sentence for the user."""
    if text == "0":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'bind address must be HOST:PORT, :PORT or 0, is "{text}"')
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_name(name: str) -> bool:
    return len(name) <= _MAX_NAME_CHARACTERS and NAME.fullmatch(name) is not None


def _require(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {expected}, is {value}")
