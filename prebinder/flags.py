"""The controller's flags, and how those of any command become settings: each sets one field.

A flag overrides the configuration file.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, get_type_hints

from csi.endpoint import Endpoint, parse_endpoint
from prebinder.config_file import convert
from prebinder.errors import UsageError
from prebinder.scheduler_settings import SchedulerSettings
from prebinder.settings import Settings

Chosen = TypeVar("Chosen", Settings, SchedulerSettings)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `group` and `field` name what it sets. No metavar means a switch, on and off."""

    name: str
    group: str
    field: str
    help: str
    metavar: str = ""


Flags = Mapping[str, tuple[Flag, ...]]
"""Title in the help -> the flags below it."""


def extender_flags(prefix: str) -> tuple[Flag, ...]:
    """Return the flags of the extender, which begin with `--` and the prefix."""
    file = partial(Flag, group="extender", metavar="FILE")
    return (
        Flag(
            f"--{prefix}bind-address",
            "extender",
            "bind_address",
            "where kube-scheduler asks; default 0, nowhere",
            "ADDRESS",
        ),
        file(f"--{prefix}tls-cert-file", field="tls_cert_file", help="certificate; only loopback can do without"),
        file(f"--{prefix}tls-key-file", field="tls_key_file", help="its key; files are read again when they change"),
        file(f"--{prefix}client-ca-file", field="client_ca_file", help="admit only clients with its certificates"),
        Flag(
            f"--{prefix}scheduler-name",
            "extender",
            "scheduler_names",
            "say something only about pods of this scheduler, default all; repeatable",
            "NAME",
        ),
        Flag(
            f"--{prefix}shutdown-delay-duration",
            "extender",
            "shutdown_delay_duration",
            "answer that long after SIGTERM, until endpoints have moved; default 10s",
            "DURATION",
        ),
    )


TLS_FLAGS: Final = (
    Flag("--csi-tls-ca", "health", "tls_ca", "authority of the certificates of drivers on tcp", "FILE"),
    Flag("--csi-tls-cert", "health", "tls_certificate", "our own certificate for them", "FILE"),
    Flag("--csi-tls-key", "health", "tls_key", "its key; files are read again when they change", "FILE"),
)
"""Shared with the command health."""

FLAGS: Final[Flags] = {
    "cluster": (
        Flag(
            "--kubeconfig",
            "cluster",
            "kubeconfig",
            "default $KUBECONFIG, ~/.kube/config, the pod's service account",
            "FILE",
        ),
        Flag("--context", "cluster", "context", "context of the kubeconfig, default its current one", "NAME"),
        Flag("--kube-api-qps", "cluster", "qps", "requests a second, default 1000", "N"),
        Flag("--kube-api-burst", "cluster", "burst", "requests at once beyond that, default 2000", "N"),
    ),
    "binding": (
        Flag(
            "--mode",
            "binding",
            "mode",
            "annotate (default): only hints; prebind: the volume's side of the bind; complete: the whole bind; off."
            " A StorageClass may choose another by annotation",
            "MODE",
        ),
        Flag(
            "--reservation-ttl", "binding", "reservation_ttl", "how long a reservation counts, default 10m", "DURATION"
        ),
        Flag("--concurrency", "binding", "concurrency", "pods worked on at once, default 10", "N"),
        Flag("--annotation-prefix", "binding", "annotation_prefix", "default scheduler.cloud.example/", "PREFIX"),
        Flag(
            "--allow-delete-policy",
            "binding",
            "allow_delete_policy",
            "let mode complete bind volumes of reclaim policy Delete",
        ),
        Flag("--dry-run", "binding", "dry_run", "say what would be written, write nothing, hold no Lease"),
    ),
    "volume health": (
        # Before the endpoints, of which those on tcp are refused without them.
        *TLS_FLAGS,
        Flag(
            "--csi-endpoint",
            "health",
            "endpoints",
            "ask this driver about its volumes; NAME is the driver's, as in spec.csi.driver; repeatable;"
            " tcp://HOST:PORT[?serverName=NAME] takes the three files above",
            "NAME=unix:///PATH",
        ),
        Flag(
            "--unknown-health",
            "health",
            "unknown",
            "block (default) or allow volumes whose driver could not say how they are",
            "POLICY",
        ),
        Flag(
            "--health-max-age",
            "health",
            "max_age",
            "oldest answer that is trusted when a volume is reserved, default 30s",
            "DURATION",
        ),
        Flag(
            "--health-sweep-interval",
            "health",
            "sweep_interval",
            "how often every volume is looked at, default 60s",
            "DURATION",
        ),
        Flag(
            "--health-sweep-rate",
            "health",
            "sweep_rate",
            "volumes a second that one driver is asked about in a sweep, default 200",
            "N",
        ),
        Flag(
            "--unhealthy-after",
            "health",
            "unhealthy_after",
            "bad answers in a row for a volume to be sick, default 1",
            "N",
        ),
        Flag(
            "--healthy-after",
            "health",
            "healthy_after",
            "good answers in a row for it to be well again, default 1",
            "N",
        ),
        Flag(
            "--quarantine",
            "health",
            "quarantine",
            "keep free volumes that are Inaccessible or lost data from every claim until they are healthy again",
        ),
        Flag(
            "--quarantine-max-share",
            "health",
            "quarantine_max_share",
            "largest share of a class's Available volumes in quarantine, default 0.3; one is always allowed",
            "SHARE",
        ),
    ),
    "leader election": (
        Flag("--leader-elect", "leader_election", "enabled", "hold a Lease before writing (default)"),
        Flag(
            "--lease-namespace",
            "leader_election",
            "namespace",
            "default the pod's own, kube-system outside a cluster",
            "NAME",
        ),
        Flag("--lease-name", "leader_election", "name", "default pvc-prebinder", "NAME"),
    ),
    "extender for kube-scheduler": extender_flags("extender-"),
    "metrics, probes and logs": (
        Flag("--metrics-bind-address", "serving", "metrics_bind_address", "default :8080, 0 serves none", "ADDRESS"),
        Flag("--health-bind-address", "serving", "health_bind_address", "default :8081, 0 serves none", "ADDRESS"),
        Flag("--log-format", "logging", "format", "text (default) or json", "FORMAT"),
    ),
}
"""The flags of the controller."""

_REPEATABLE: Final = frozenset({"endpoints", "scheduler_names"})

LOG_LEVEL: Final = Flag("--log-level", "logging", "level", "")
"""Added to every command by the command line itself."""


def add_flags(parser: argparse.ArgumentParser, flags: Flags = FLAGS) -> None:
    """Add all flags, in groups. None means that the user did not say."""
    for title, below in flags.items():
        group = parser.add_argument_group(title)
        for flag in below:
            if not flag.metavar:
                group.add_argument(flag.name, action=argparse.BooleanOptionalAction, help=flag.help)
            else:
                action = "append" if flag.field in _REPEATABLE else "store"
                group.add_argument(flag.name, action=action, metavar=flag.metavar, help=flag.help)


def override(settings: Chosen, arguments: argparse.Namespace, flags: Flags = FLAGS) -> Chosen:
    """Return the settings with the flags that the user gave laid over; UsageError names a wrong one."""
    for flag in (*(flag for below in flags.values() for flag in below), LOG_LEVEL):
        given = getattr(arguments, flag.name.removeprefix("--").replace("-", "_"))
        if given is None:
            continue
        group = getattr(settings, flag.group)
        try:
            changed = replace(group, **{flag.field: _value(get_type_hints(type(group))[flag.field], given)})
        except ValueError as error:
            raise UsageError(f"{flag.name}: {error}") from error
        settings = replace(settings, **{flag.group: changed})
    return settings


def _value(kind: Any, given: Any) -> Any:
    if kind == tuple[Endpoint, ...]:
        return tuple(parse_endpoint(one) for one in given)
    if kind == tuple[str, ...]:
        return tuple(given)
    if kind in {int, float}:
        try:
            return kind(given)
        except ValueError:
            return convert(kind, given)  # raises, and says what was expected
    return convert(kind, given)
