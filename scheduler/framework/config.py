"""The configuration file of the scheduler: YAML, versioned, decoded strictly. Errors name their place.

Omitted keys of a profile keep their default; a list or mapping replaces the default as a whole. To disable a plugin,
list the others. The order of filters is the order in which they run and are reported.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

import yaml
from annotated_types import Interval, Len

from kube.configuration.document import API_VERSION, ConfigurationError, ConfigurationFile
from kube.configuration.fields import CAMEL_KEYS, AsText
from kube.rules.selectors import is_label_key
from scheduler.framework.config_affinity import AffinityEntry, AffinityError, added_affinity, affinity_document
from scheduler.framework.config_plugins import PluginEntry, check_known, decoded_args, plugin_config
from scheduler.framework.containment import PluginFailed
from scheduler.framework.profile import ALL_NODES, AddedAffinity, Profile, ProfileData, Thresholds
from scheduler.framework.registry import Registry, build

KIND: Final = "SchedulerConfiguration"
HEAVIEST: Final = 100
"""Maximum weight of a score."""

Name = Annotated[str, Len(1, 253)]
Weights = dict[Name, Annotated[int, Interval(ge=1, le=HEAVIEST)]]
Defaults = Callable[[str], ProfileData]
"""Scheduler name -> the profile whose values are used for omitted keys."""


def _label_key(text: str) -> str:
    if text and not is_label_key(text):
        raise ValueError(f'expected a label key, found "{text}"')
    return text


@dataclass(frozen=True, slots=True)
class _Thresholds:
    __pydantic_config__ = CAMEL_KEYS

    storage_label: Annotated[str, AsText(_label_key, str, "a label key")] = ""
    """Nodes without this label get no local volumes; empty: every node does."""
    resources: Weights | None = None
    """Weight of each resource in LeastAllocated and BinPack; Balanced uses the same ones, without weights."""


@dataclass(frozen=True, slots=True)
class _Profile:
    __pydantic_config__ = CAMEL_KEYS

    scheduler_name: Name
    """Pods with this spec.schedulerName are scheduled by this profile."""
    percentage_of_nodes_to_score: Annotated[int, Interval(ge=0, le=ALL_NODES)] | None = None
    """Stop searching for nodes once that many percent of all fit; 0 adapts to the cluster's size as kube-scheduler
    does.
    """
    queue_sort: str | None = None
    """In what order pods are scheduled."""
    pre_filters: list[str] | None = None
    """Plugins that evaluate the pod before any node."""
    filters: list[str] | None = None
    """Filters that evaluate each node, in this order."""
    scores: Weights | None = None
    """Scores and their weights."""
    thresholds: _Thresholds = field(default_factory=_Thresholds)
    plugin_config: list[PluginEntry] = field(default_factory=list)
    """Arguments of the plugins that take arguments."""
    added_affinity: AffinityEntry | None = None
    """Node affinity of all pods of the profile, beside their own."""


@dataclass(frozen=True, slots=True)
class _File:
    __pydantic_config__ = CAMEL_KEYS

    profiles: Annotated[list[_Profile], Len(1)]


FILE: Final = ConfigurationFile(KIND, _File)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The profiles, by the scheduler name that pods name."""

    profiles: Mapping[str, Profile]


def parse(text: str, registry: Registry, defaults: Defaults) -> Configuration:
    """Return the configuration in a document. Raises ConfigurationError for the first error."""
    profiles: dict[str, Profile] = {}
    for place, profile in enumerate(FILE.parse(text).profiles):
        path = f"profiles[{place}]"
        name = profile.scheduler_name
        if name in profiles:
            raise ConfigurationError(f"{path}.schedulerName", f'duplicate profile "{name}"')
        data = _data(profile, path, registry, defaults(name))
        args = decoded_args(data, profile.plugin_config, registry, text, ("profiles", place))
        try:
            profiles[name] = build(replace(data, args=args), registry)
        except PluginFailed as failure:
            raise ConfigurationError(path, str(failure)) from failure
    return Configuration(profiles)


def render(configuration: Configuration) -> str:
    """Return the complete document, defaults included: `parse` reads the same configuration from it."""
    profiles = [_document(profile) for profile in configuration.profiles.values()]
    document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _document(profile: Profile) -> Mapping[str, object]:
    limits = profile.thresholds
    added = affinity_document(limits.added_affinity)
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "queueSort": profile.queue_sort.name,
        "preFilters": [plugin.name for plugin in profile.pre_filters],
        "filters": [plugin.name for plugin in profile.filters],
        "scores": {weighted.plugin.name: weighted.weight for weighted in profile.scores},
        "thresholds": {"storageLabel": limits.storage_label, "resources": dict(limits.resources)},
        **({"pluginConfig": plugin_config(profile.args)} if profile.args else {}),
        **({"addedAffinity": added} if added else {}),
    }


def _data(profile: _Profile, path: str, registry: Registry, default: ProfileData) -> ProfileData:
    queue_sort = default.queue_sort if profile.queue_sort is None else profile.queue_sort
    pre_filters = default.pre_filters if profile.pre_filters is None else tuple(profile.pre_filters)
    filters = default.filters if profile.filters is None else tuple(profile.filters)
    scores = default.scores if profile.scores is None else profile.scores
    percentage = profile.percentage_of_nodes_to_score
    _check_names(f"{path}.queueSort", (queue_sort,), registry.queue_sorts)
    _check_names(f"{path}.preFilters", pre_filters, registry.pre_filters)
    _check_names(f"{path}.filters", filters, registry.filters)
    _check_names(f"{path}.scores", scores, registry.scores)
    limits = profile.thresholds
    resources = default.thresholds.resources if limits.resources is None else limits.resources
    return ProfileData(
        scheduler_name=profile.scheduler_name,
        queue_sort=queue_sort,
        pre_filters=pre_filters,
        filters=filters,
        scores=scores,
        thresholds=Thresholds(limits.storage_label, resources, _added(profile, path)),
        percentage_of_nodes_to_score=default.percentage_of_nodes_to_score if percentage is None else percentage,
    )


def _added(profile: _Profile, path: str) -> AddedAffinity:
    try:
        return added_affinity(profile.added_affinity)
    except AffinityError as error:
        raise ConfigurationError(f"{path}.addedAffinity.{error.place}", error.problem) from error


def _check_names(path: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    seen: set[str] = set()
    for name in names:
        check_known(path, name, known)
        if name in seen:
            raise ConfigurationError(path, f'"{name}" is listed twice')
        seen.add(name)
