"""The flags that set a field of the settings. A flag overrides the configuration file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, get_type_hints

import cloup

from prebinder.command_line.command import LOG_LEVEL, LOG_LEVEL_HELP, Command
from prebinder.command_line.parameters import type_of
from prebinder.config.feature_gates import STAGES, gate_name
from prebinder.config.scheduler_settings import SchedulerSettings
from prebinder.config.settings import AgentSettings, Settings
from prebinder.errors import UsageError

Chosen = TypeVar("Chosen", Settings, AgentSettings, SchedulerSettings)
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `sets` names the field of the settings, `group.field`, or a group of which its value says which fields
    it sets. No metavar means a switch, on and off.
    """

    name: str
    sets: str
    help: str
    metavar: str = ""

    @property
    def group(self) -> str:
        return self.sets.partition(".")[0]

    @property
    def field(self) -> str:
        return self.sets.partition(".")[2]

    @property
    def parameter(self) -> str:
        """The name under which click passes the value."""
        return self.name.removeprefix("--").replace("-", "_")


Flags = Mapping[str, tuple[Flag, ...]]
"""Title in the help -> the flags below it."""


def extender_flags(prefix: str) -> tuple[Flag, ...]:
    """Return the flags of the extender, which begin with `--` and the prefix."""
    file = partial(Flag, metavar="FILE")
    return (
        Flag(
            f"--{prefix}bind-address",
            "extender.bind_address",
            "address that kube-scheduler calls; default 0, disabled",
            "ADDRESS",
        ),
        file(f"--{prefix}tls-cert-file", "extender.tls_cert_file", "serving certificate; optional on loopback only"),
        file(f"--{prefix}tls-key-file", "extender.tls_key_file", "its key; files are reloaded when they change"),
        file(f"--{prefix}client-ca-file", "extender.client_ca_file", "require client certificates of this CA"),
        Flag(
            f"--{prefix}scheduler-name",
            "extender.scheduler_names",
            "handle only pods of this scheduler, default all; repeatable",
            "NAME",
        ),
        Flag(
            f"--{prefix}shutdown-delay-duration",
            "extender.shutdown_delay_duration",
            "keep serving this long after SIGTERM, until endpoints are updated; default 10s",
            "DURATION",
        ),
    )


TLS_FLAGS: Final = (
    Flag("--csi-tls-ca", "health.tls_ca", "CA of the certificates of drivers on TCP", "FILE"),
    Flag("--csi-tls-cert", "health.tls_certificate", "client certificate for drivers on TCP", "FILE"),
    Flag("--csi-tls-key", "health.tls_key", "its key; files are reloaded when they change", "FILE"),
)

FEATURE_GATES: Final = Flag(
    "--feature-gates",
    "feature_gates",
    f"switch parts in alpha off or on: {', '.join(map(gate_name, STAGES))}; all are on by default",
    "NAME=true|false,...",
)
"""Of the controller and of the scheduler."""

CLUSTER_FLAGS: Final = (
    Flag(
        "--kubeconfig",
        "cluster.kubeconfig",
        "default $KUBECONFIG, ~/.kube/config, then the pod's service account",
        "FILE",
    ),
    Flag("--context", "cluster.context", "kubeconfig context, default the current one", "NAME"),
    Flag("--kube-api-qps", "cluster.qps", "requests per second, default 1000", "N"),
    Flag("--kube-api-burst", "cluster.burst", "burst of requests, default 2000", "N"),
)

ENDPOINT_FLAGS: Final = (
    # Before the endpoints: those on TCP are rejected without them.
    *TLS_FLAGS,
    Flag(
        "--csi-endpoint",
        "health.endpoints",
        "probe this driver's volumes; NAME as in spec.csi.driver; repeatable;"
        " tcp://HOST:PORT[?serverName=NAME] needs the three files above",
        "NAME=unix:///PATH",
    ),
)
"""Shared with the command health."""

PROBE_FLAGS: Final = (
    *ENDPOINT_FLAGS,
    Flag(
        "--health-sweep-interval", "health.sweep_interval", "how often every volume is probed, default 60s", "DURATION"
    ),
    Flag("--health-sweep-rate", "health.sweep_rate", "volumes probed per second and driver, default 200", "N"),
    Flag(
        "--health-in-use-interval",
        "health.in_use_interval",
        "how often volumes that pods wait for or use are probed, within that rate, default 10s",
        "DURATION",
    ),
    Flag(
        "--unhealthy-after",
        "health.unhealthy_after",
        "consecutive unhealthy reports that make a volume unhealthy, default 1",
        "N",
    ),
    Flag(
        "--healthy-after",
        "health.healthy_after",
        "consecutive healthy reports that make it healthy again, default 1",
        "N",
    ),
)

FLAGS: Final[Flags] = {
    "Cluster": CLUSTER_FLAGS,
    "Binding": (
        Flag(
            "--mode",
            "binding.mode",
            "annotate (default): hints only; prebind: commit the volume; complete: finish the bind; off."
            " An annotation on a StorageClass overrides it",
            "MODE",
        ),
        Flag(
            "--dynamic-mode",
            "binding.dynamic_mode",
            "the mode of classes that provision volumes, default --mode; also provision",
            "MODE",
        ),
        Flag("--reservation-ttl", "binding.reservation_ttl", "lifetime of a reservation, default 10m", "DURATION"),
        Flag("--concurrency", "binding.concurrency", "pods handled in parallel, default 10", "N"),
        Flag("--annotation-prefix", "binding.annotation_prefix", "default scheduler.cloud.example/", "PREFIX"),
        Flag(
            "--allow-delete-policy",
            "binding.allow_delete_policy",
            "let mode complete bind volumes with reclaim policy Delete",
        ),
        Flag("--dry-run", "binding.dry_run", "report what would be reserved; write nothing, hold no Lease"),
        Flag("--once", "binding.once", "end a dry run after the first complete pass, with an exit code"),
    ),
    "Volume health": (
        *PROBE_FLAGS,
        Flag(
            "--unknown-health",
            "health.unknown",
            "block (default) or allow volumes whose health the driver could not report",
            "POLICY",
        ),
        Flag(
            "--health-max-age",
            "health.max_age",
            "maximum age of the health result a reservation relies on, default 30s",
            "DURATION",
        ),
        Flag(
            "--quarantine",
            "health.quarantine",
            "withhold Available volumes that are Inaccessible or have lost data from all claims until they are healthy",
        ),
        Flag(
            "--quarantine-max-share",
            "health.quarantine_max_share",
            "maximum share of a class's Available volumes in quarantine, default 0.3; one is always allowed",
            "SHARE",
        ),
    ),
    "Events": (
        Flag(
            "--docs-base-url",
            "events.docs_base_url",
            "site that make docs builds; Events about pods without volumes then link to the page of their reason",
            "URL",
        ),
    ),
    "Holds for StatefulSets": (
        Flag("--hold-volumes", "holds.enabled", "hold volumes for replicas to come, by the annotation hold-replicas"),
        Flag(
            "--hold-max-share",
            "holds.max_share",
            "maximum share of a class's free and held volumes that are held, also in each zone, default 0.5",
            "SHARE",
        ),
        Flag(
            "--hold-max-per-namespace",
            "holds.max_per_namespace",
            "maximum number of volumes held for one namespace, default 50",
            "COUNT",
        ),
    ),
    "Features": (FEATURE_GATES,),
    "Leader election": (
        Flag("--leader-elect", "leader_election.enabled", "hold a Lease before writing (default)"),
        Flag(
            "--lease-namespace",
            "leader_election.namespace",
            "default the pod's own; kube-system outside a cluster",
            "NAME",
        ),
        Flag("--lease-name", "leader_election.name", "default pvc-prebinder", "NAME"),
    ),
    "Extender for kube-scheduler": extender_flags("extender-"),
    "Metrics, probes and logs": (
        Flag("--metrics-bind-address", "serving.metrics_bind_address", "default :8080; 0 disables", "ADDRESS"),
        Flag("--health-bind-address", "serving.health_bind_address", "default :8081; 0 disables", "ADDRESS"),
        Flag("--log-format", "logging.format", "text (default) or json", "FORMAT"),
        Flag(LOG_LEVEL, "logging.level", LOG_LEVEL_HELP, "LEVEL"),
    ),
    "Traces": (
        Flag("--tracing", "tracing.enabled", "trace attempts for pods by OpenTelemetry, as its variables OTEL_... say"),
        Flag(
            "--tracing-endpoint",
            "tracing.endpoint",
            "the same, and send the traces there by OTLP over gRPC",
            "http://HOST:4317",
        ),
    ),
}
"""The flags of the controller."""

_REPEATABLE: Final = frozenset({"endpoints", "scheduler_names"})


def settings_flags(
    flags: Flags, defaults: Settings | AgentSettings | SchedulerSettings
) -> Callable[[Function], Function]:
    """Return the decorator that adds these flags to a command, in groups. Flags that are not given are None or
    empty.
    """

    def decorate(function: Function) -> Function:
        for title, below in reversed(list(flags.items())):
            function = cloup.option_group(title, *(_option(flag, defaults) for flag in below))(function)
        return function

    return decorate


def option(flag: Flag, kind: Any) -> Callable[[Function], Function]:
    """Return the decorator for one flag that sets a field of this type."""
    if not flag.metavar:
        stem = flag.name.removeprefix("--")
        return cloup.option(f"--{stem}/--no-{stem}", default=None, help=flag.help)
    return cloup.option(
        flag.name,
        type=type_of(kind, flag.metavar),
        metavar=flag.metavar,
        multiple=flag.field in _REPEATABLE,
        help=flag.help,
    )


def override(settings: Chosen, given: Mapping[str, Any], flags: Flags) -> Chosen:
    """Return the settings overridden by the given flags; UsageError names an invalid one."""
    for flag in (flag for below in flags.values() for flag in below):
        value = given.get(flag.parameter)
        if value is None or value == ():
            continue
        group = getattr(settings, flag.group)
        try:
            changed = replace(group, **({flag.field: value} if flag.field else value))
        except ValueError as error:
            raise UsageError(f"{flag.name}: {error}") from error
        settings = replace(settings, **{flag.group: changed})
    return settings


def settings_from(defaults: Chosen, flags: Flags, arguments: Sequence[str]) -> Chosen:
    """Return the settings overridden by these arguments, for callers that compose a process without its command."""

    @cloup.command("settings", cls=Command)
    @settings_flags(flags, defaults)
    def command(**given: Any) -> Chosen:
        return override(defaults, given, flags)

    with command.make_context("settings", list(arguments)) as context:
        changed = command.invoke(context)
    assert isinstance(changed, type(defaults))
    return changed


def _option(flag: Flag, defaults: object) -> Callable[[Function], Function]:
    group = type(getattr(defaults, flag.group))
    return option(flag, get_type_hints(group)[flag.field] if flag.field else group)
