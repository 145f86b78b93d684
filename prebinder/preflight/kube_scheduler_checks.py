"""Whether a KubeSchedulerConfiguration makes kube-scheduler call the extender correctly. Pure rules.

Sources: pkg/scheduler/extender.go, pkg/scheduler/apis/config/validation/validation.go and the types of
k8s.io/kube-scheduler/config/v1.
"""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kube.configuration.document import ConfigurationError, ConfigurationFile
from kube.configuration.fields import CAMEL_KEYS, show
from kube.rules.duration import format_duration, parse_duration
from prebinder.config.loopback import is_loopback
from prebinder.preflight.doctor_checks import Check, CheckState

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
OWN_NAME: Final = "pvc-prebinder"
"""Part of the address or server name of our own extender."""

ALL_NODES: Final = 100
MAX_TIMEOUT: Final = timedelta(seconds=1)
MIN_TIMEOUT: Final = timedelta(milliseconds=100)

_OF_MANY: Final[Mapping[str, object]] = {**CAMEL_KEYS, "extra": "ignore"}
"""kube-scheduler has more keys in these than matter here."""


@dataclass(frozen=True, slots=True)
class TLS:
    __pydantic_config__ = CAMEL_KEYS

    insecure: bool | None = None
    server_name: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    cert_data: str | None = None
    key_data: str | None = None
    ca_data: str | None = None


@dataclass(frozen=True, slots=True)
class ManagedResource:
    __pydantic_config__ = CAMEL_KEYS

    name: str = ""
    ignored_by_scheduler: bool | None = None


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    __pydantic_config__ = CAMEL_KEYS

    url_prefix: str | None = None
    filter_verb: str | None = None
    preempt_verb: str | None = None
    prioritize_verb: str | None = None
    bind_verb: str | None = None
    weight: int | None = None
    enable_https: bool | None = None
    tls_config: TLS | None = None
    http_timeout: str | None = None
    node_cache_capable: bool | None = None
    managed_resources: list[ManagedResource] | None = None
    ignorable: bool | None = None


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    __pydantic_config__ = _OF_MANY

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerFile:
    __pydantic_config__ = _OF_MANY

    percentage_of_nodes_to_score: int | None = None
    profiles: list[ProfileEntry] | None = None
    extenders: list[ExtenderEntry] | None = None


FILE: Final = ConfigurationFile(KIND, SchedulerFile, API_VERSION)


def scheduler_file_checks(text: str) -> list[Check]:
    """Check the text of a file. If it cannot be read, that is the only line of the report."""
    try:
        file = FILE.parse(text)
    except ConfigurationError as error:
        return [
            Check(error.place or "file", CheckState.PROBLEM, error.problem, "kube-scheduler does not start with it")
        ]
    return [*_extenders(file.extenders or []), *_samples(file)]


def _extenders(entries: Sequence[ExtenderEntry]) -> Iterator[Check]:
    if not entries:
        meaning = "kube-scheduler calls no extender: it takes unhealthy and reserved volumes"
        yield Check("extenders", CheckState.PROBLEM, "none", meaning)
        return
    ours = [number for number, entry in enumerate(entries) if OWN_NAME in _names(entry)]
    for number in ours or range(len(entries)):
        subject, entry = f"extenders[{number}]", entries[number]
        checks = [check for judge in _JUDGES for check in judge(entry, subject)]
        if all(check.state is CheckState.OK for check in checks):
            yield Check(subject, CheckState.OK, f"{entry.url_prefix}: correct")
        yield from (check for check in checks if check.state is not CheckState.OK)


def _names(entry: ExtenderEntry) -> str:
    return f"{entry.url_prefix} {entry.tls_config.server_name if entry.tls_config else ''}"


def _address(entry: ExtenderEntry, subject: str) -> Iterator[Check]:
    subject = f"{subject}.urlPrefix"
    url = _url(entry)
    if url is None:
        yield Check(
            subject, CheckState.PROBLEM, show(entry.url_prefix), "expected an address such as https://10.96.0.42"
        )
        return
    host = url.hostname or ""
    if url.path not in {"", "/"}:
        yield Check(
            subject, CheckState.PROBLEM, f"path {url.path}", "the verbs are served at the root: every call is a 404"
        )
    if ".svc" in f"{host}.":
        meaning = "Service names are not resolved in the host's network: use the cluster IP, and the name as serverName"
        yield Check(subject, CheckState.NOTE, f"the name {host}", meaning)
    if url.scheme == "http" and not is_loopback(host):
        meaning = "the extender serves plain HTTP on loopback only, because whole pods are sent: use https"
        yield Check(subject, CheckState.PROBLEM, f"http to {host}", meaning)


def _url(entry: ExtenderEntry) -> SplitResult | None:
    try:
        url = urlsplit(entry.url_prefix or "")
        usable = url.scheme in {"http", "https"} and bool(url.hostname)
        return url if usable and url.port != 0 else None
    except ValueError:
        return None


def _tls(entry: ExtenderEntry, subject: str) -> Iterator[Check]:
    url, tls, subject = _url(entry), entry.tls_config or TLS(), f"{subject}.tlsConfig"
    if url is None or url.scheme != "https":
        return
    authority = tls.ca_file or tls.ca_data
    if tls.insecure or (entry.enable_https and not authority):
        problem = "insecure" if tls.insecure else "no caFile"
        meaning = "the server is not verified: any server at that address decides about nodes"
        yield Check(subject, CheckState.PROBLEM, problem, meaning)
    elif not authority:
        yield Check(subject, CheckState.NOTE, "no caFile", "the server is verified by the host's CAs")
    elif not tls.server_name and _is_address(url.hostname or ""):
        meaning = "the certificate must contain the address; expected the name in the certificate"
        yield Check(f"{subject}.serverName", CheckState.NOTE, "not set", meaning)
    certificate, key = tls.cert_file or tls.cert_data, tls.key_file or tls.key_data
    if bool(certificate) != bool(key):
        meaning = "kube-scheduler does not start with it: a certificate and its key belong together"
        yield Check(subject, CheckState.PROBLEM, "a key alone" if key else "a certificate alone", meaning)
    elif not certificate:
        meaning = "rejected by an extender with --client-ca-file, as in the manifests"
        yield Check(subject, CheckState.NOTE, "no client certificate", meaning)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _verbs(entry: ExtenderEntry, subject: str) -> Iterator[Check]:
    evicted = "pods are evicted on nodes where the preemptor is rejected afterwards"
    verbs = (
        ("filterVerb", entry.filter_verb, "filter", "pods get unhealthy and reserved volumes"),
        ("prioritizeVerb", entry.prioritize_verb, "prioritize", "no reserved zone or node is preferred"),
        ("preemptVerb", entry.preempt_verb, "preempt", evicted),
    )
    for key, verb, expected, without in verbs:
        if not verb:
            yield Check(f"{subject}.{key}", CheckState.PROBLEM, "not set", f"{without}: expected {expected}")
        elif verb.strip("/") != expected:
            yield Check(f"{subject}.{key}", CheckState.PROBLEM, show(verb), f"every call is a 404: expected {expected}")
    if entry.bind_verb:
        meaning = "the extender binds nothing: no pod would be bound; remove the key"
        yield Check(f"{subject}.bindVerb", CheckState.PROBLEM, show(entry.bind_verb), meaning)
    if entry.prioritize_verb and (entry.weight or 0) <= 0:
        meaning = "kube-scheduler does not start with it: expected a weight such as 5"
        yield Check(f"{subject}.weight", CheckState.PROBLEM, show(entry.weight), meaning)


def _calls(entry: ExtenderEntry, subject: str) -> Iterator[Check]:
    if not entry.node_cache_capable:
        meaning = "whole nodes are sent, and kube-scheduler scores every node as if it were empty: expected true"
        yield Check(f"{subject}.nodeCacheCapable", CheckState.PROBLEM, show(entry.node_cache_capable), meaning)
    if not entry.ignorable:
        meaning = "no pod is scheduled while the extender is down or slow: expected true, unless that is intended"
        yield Check(f"{subject}.ignorable", CheckState.NOTE, show(entry.ignorable), meaning)
    managed = [resource.name for resource in entry.managed_resources or ()]
    if managed:
        meaning = "it is called only for pods that request one of these, not for pods with volumes: remove the key"
        yield Check(f"{subject}.managedResources", CheckState.PROBLEM, ", ".join(managed), meaning)
    yield from _timeout(entry.http_timeout, f"{subject}.httpTimeout")


def _timeout(text: str | None, subject: str) -> Iterator[Check]:
    if not text or text in {"0", "0s"}:
        meaning = "every pod waits 5s for an extender that hangs: expected about 500ms"
        yield Check(subject, CheckState.NOTE, "not set", meaning)
        return
    try:
        timeout = parse_duration(text)
    except ValueError as error:
        yield Check(subject, CheckState.PROBLEM, show(text), str(error))
        return
    if timeout > MAX_TIMEOUT:
        meaning = f"every pod waits {format_duration(timeout)} for an extender that hangs: expected about 500ms"
        yield Check(subject, CheckState.NOTE, text, meaning)
    elif timeout < MIN_TIMEOUT:
        yield Check(subject, CheckState.NOTE, text, "later answers are dropped: expected about 500ms")


Judge = Callable[[ExtenderEntry, str], Iterator[Check]]
_JUDGES: Final[Sequence[Judge]] = (_address, _tls, _verbs, _calls)


def _samples(file: SchedulerFile) -> Iterator[Check]:
    """Check how many nodes are sent to the extender; a profile's own number overrides that of the file."""
    for number, profile in enumerate(file.profiles or [ProfileEntry()]):
        own = profile.percentage_of_nodes_to_score
        percentage = file.percentage_of_nodes_to_score if own is None else own
        subject = f"profiles[{number}].percentageOfNodesToScore" if own is not None else "percentageOfNodesToScore"
        if percentage is not None and percentage >= ALL_NODES:
            yield Check(subject, CheckState.OK, f"{percentage} for {profile.scheduler_name}")
            continue
        value = f"{percentage or 'not set'} for {profile.scheduler_name}"
        meaning = (
            "with more than 100 nodes the extender receives a sample of them: reservations of local volumes are strict "
            f"only with {ALL_NODES}, or for classes in mode prebind"
        )
        yield Check(subject, CheckState.NOTE, value, meaning)
