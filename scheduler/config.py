"""The configuration file of the scheduler: YAML, versioned, decoded strictly. What is wrong is named with its place.

What is left out of a profile keeps its default; a list or mapping that is there replaces the default as a whole. To
switch a plugin off, list the others. The order of filters is the order in which they are asked and complained about.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import yaml
from msgspec import Meta, Struct, field

from kube.complaint import UNKNOWN_KEY, read_complaint, show
from kube.selectors import is_label_key
from kube.strict_yaml import load_strictly
from scheduler.config_affinity import KEYS, AffinityEntry, AffinityError, added_affinity, affinity_document
from scheduler.profile import ALL_NODES, Profile, ProfileData, Registry, Thresholds, build

API_VERSION: Final = "config.pvc-prebinder/v1alpha1"
KIND: Final = "SchedulerConfiguration"
HEAVIEST: Final = 100
"""Weight of a score."""

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Defaults = Callable[[str], ProfileData]
"""Scheduler name -> the profile for which nothing was said."""


class ConfigurationError(ValueError):
    """A file that cannot be used. `place` is a path such as `profiles[0].scores.BinPack`, empty for the whole file."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place = place
        self.problem = problem


class _Thresholds(Struct, rename="camel", forbid_unknown_fields=True):
    storage_label: str = ""
    resources: dict[Name, object] | None = None


class _Profile(Struct, rename="camel", forbid_unknown_fields=True):
    scheduler_name: Name
    percentage_of_nodes_to_score: int | None = None
    queue_sort: str | None = None
    pre_filters: list[str] | None = None
    filters: list[str] | None = None
    scores: dict[str, object] | None = None
    thresholds: _Thresholds = field(default_factory=_Thresholds)
    added_affinity: AffinityEntry | None = None


class _File(Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    profiles: Annotated[list[_Profile], Meta(min_length=1)]


_KEYS: Final[Mapping[str, type[Struct]]] = {"": _File, "profiles": _Profile, "thresholds": _Thresholds, **KEYS}
"""What may stand under each key."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The profiles, by the scheduler name that pods ask for."""

    profiles: Mapping[str, Profile]


def parse(text: str, registry: Registry, defaults: Defaults) -> Configuration:
    """Return the configuration in a document. Raises ConfigurationError for the first thing that is wrong."""
    try:
        document = load_strictly(text)
    except ValueError as error:
        raise ConfigurationError("", str(error)) from error
    _check_version(document)
    try:
        found = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        raise _misread(str(error)) from error
    profiles: dict[str, Profile] = {}
    for place, one in enumerate(found.profiles):
        path = f"profiles[{place}]"
        if one.scheduler_name in profiles:
            raise ConfigurationError(f"{path}.schedulerName", f'there is another profile "{one.scheduler_name}"')
        profiles[one.scheduler_name] = build(_data(one, path, registry, defaults(one.scheduler_name)), registry)
    return Configuration(profiles)


def render(configuration: Configuration) -> str:
    """Return the document that says all of it, defaults included: `parse` reads the same configuration from it."""
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
        "preFilters": [one.name for one in profile.pre_filters],
        "filters": [one.name for one in profile.filters],
        "scores": {one.plugin.name: one.weight for one in profile.scores},
        "thresholds": {"storageLabel": limits.storage_label, "resources": dict(limits.resources)},
        **({"addedAffinity": added} if added else {}),
    }


def _check_version(document: object) -> None:
    """Say first of all that it is another kind of file: everything else would be wrong with it too."""
    if not isinstance(document, Mapping):
        raise ConfigurationError("", f"expected a mapping with apiVersion, kind and profiles, found {show(document)}")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            raise ConfigurationError(key, f'expected "{expected}", found {show(document.get(key))}')


def _data(one: _Profile, path: str, registry: Registry, default: ProfileData) -> ProfileData:
    queue_sort = default.queue_sort if one.queue_sort is None else one.queue_sort
    pre_filters = default.pre_filters if one.pre_filters is None else tuple(one.pre_filters)
    filters = default.filters if one.filters is None else tuple(one.filters)
    scores = default.scores if one.scores is None else _weights(one.scores, f"{path}.scores")
    percentage = one.percentage_of_nodes_to_score
    if percentage is not None and not 0 <= percentage <= ALL_NODES:
        expected = f"expected a whole number from 0 to {ALL_NODES}"
        raise ConfigurationError(f"{path}.percentageOfNodesToScore", f"{expected}, found {percentage}")
    _check_names(f"{path}.queueSort", (queue_sort,), registry.queue_sorts)
    _check_names(f"{path}.preFilters", pre_filters, registry.pre_filters)
    _check_names(f"{path}.filters", filters, registry.filters)
    _check_names(f"{path}.scores", scores, registry.scores)
    return ProfileData(
        scheduler_name=one.scheduler_name,
        queue_sort=queue_sort,
        pre_filters=pre_filters,
        filters=filters,
        scores=scores,
        thresholds=_thresholds(one, path, default.thresholds),
        percentage_of_nodes_to_score=default.percentage_of_nodes_to_score if percentage is None else percentage,
    )


def _thresholds(one: _Profile, path: str, default: Thresholds) -> Thresholds:
    label, resources = one.thresholds.storage_label, one.thresholds.resources
    if label and not is_label_key(label):
        raise ConfigurationError(f"{path}.thresholds.storageLabel", f'expected a label key, found "{label}"')
    weights = default.resources if resources is None else _weights(resources, f"{path}.thresholds.resources")
    try:
        added = added_affinity(one.added_affinity)
    except AffinityError as error:
        raise ConfigurationError(f"{path}.addedAffinity.{error.place}", error.problem) from error
    return Thresholds(label, weights, added)


def _weights(found: Mapping[str, object], path: str) -> Mapping[str, int]:
    """Return the weights. Their type is checked here because msgspec does not say of which name it speaks."""
    weights: dict[str, int] = {}
    for name, weight in found.items():
        if type(weight) is not int or not 1 <= weight <= HEAVIEST:
            expected = f"expected a whole number from 1 to {HEAVIEST}"
            raise ConfigurationError(f"{path}.{name}", f"{expected}, found {show(weight)}")
        weights[name] = weight
    return weights


def _check_names(path: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    seen: set[str] = set()
    for name in names:
        if name not in known:
            raise ConfigurationError(path, f'there is no "{name}": expected some of {", ".join(sorted(known))}')
        if name in seen:
            raise ConfigurationError(path, f'"{name}" is listed twice')
        seen.add(name)


def _misread(message: str) -> ConfigurationError:
    place, problem = read_complaint(message)
    if problem == UNKNOWN_KEY:
        above = place.rpartition(".")[0].rpartition(".")[2].partition("[")[0]
        problem = f"{problem}: expected {', '.join(_KEYS[above].__struct_encode_fields__)}"
    return ConfigurationError(place, problem)
