"""The profile of a simulation: a scheduler's own, or the default with selected plugins and weights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kube.configuration.document import ConfigurationError
from kube.configuration.nearest import did_you_mean
from prebinder.config.installed_plugins import installed_registry
from prebinder.errors import UsageError
from scheduler.framework.config import HEAVIEST, parse
from scheduler.framework.containment import PluginFailed
from scheduler.framework.profile import Profile
from scheduler.framework.registry import Registry, build
from scheduler.plugins.registry import default_data, default_profile
from why.rendering.lines import warn


@dataclass(frozen=True, slots=True)
class Chosen:
    """The user's choice. `profile` is one of `config`, which names its plugins and weights itself."""

    plugins: str | None = None
    weights: str | None = None
    config: str | None = None
    profile: str | None = None


@dataclass(slots=True)
class _Failures:
    """Reports plugins that fail: on standard error, each failure once."""

    reported: set[str] = field(default_factory=set)

    def plugin_failed(self, failure: PluginFailed) -> None:
        if str(failure) not in self.reported:
            self.reported.add(str(failure))
            warn(str(failure), "pvc-prebinder simulate")


def profile_of(chosen: Chosen) -> Profile:
    """Return the profile. Raises UsageError for an unknown name, and for an invalid configuration."""
    try:
        if chosen.config is not None:
            return _from_file(chosen, chosen.config)
        if chosen.profile is not None:
            raise UsageError("--profile selects a profile of the file that --config names; give both")
        if chosen.plugins is None and chosen.weights is None:
            return default_profile("simulated")
        return _from_flags(chosen, installed_registry(_Failures()))
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def _from_file(chosen: Chosen, path: str) -> Profile:
    if chosen.plugins is not None or chosen.weights is not None:
        raise UsageError("--config excludes --plugins and --weights: it names the plugins and weights itself")
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: {error}") from error
    try:
        profiles = parse(text, installed_registry(_Failures()), default_data).profiles
    except ConfigurationError as error:
        raise UsageError(f"--config {path}: {error}") from error
    if chosen.profile is None and len(profiles) > 1:
        raise UsageError(f"--profile is required: {path} has {', '.join(profiles)}")
    name = next(iter(profiles)) if chosen.profile is None else chosen.profile
    if name not in profiles:
        raise UsageError(f'--profile: {path} has no "{name}"{did_you_mean(name, profiles)}')
    return profiles[name]


def _from_flags(chosen: Chosen, registry: Registry) -> Profile:
    data = default_data("simulated")
    if chosen.plugins is not None:
        known = [*registry.filters, *registry.scores]
        names = [_known("--plugins", name, known, registry) for name in _names(chosen.plugins)]
        if not names:
            raise UsageError("--plugins: expected NAME,..., found nothing")
        scores = {name: data.scores.get(name, 1) for name in names if name in registry.scores}
        data = replace(data, filters=tuple(name for name in registry.filters if name in names), scores=scores)
    if chosen.weights is not None:
        scores = {**data.scores, **_weights(chosen.weights, registry)}
        data = replace(data, scores={name: weight for name, weight in scores.items() if weight})
    for name in (*data.filters, *data.scores):
        if name in registry.installed and registry.plugins[name].args is not None:
            raise UsageError(f"{name} takes args: give them in the pluginConfig of a file that --config names")
    try:
        return build(data, registry)
    except PluginFailed as failure:
        raise UsageError(str(failure)) from failure


def _is_between(least: int, most: int, text: str) -> bool:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return digits and least <= int(text) <= most


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _weights(listed: str, registry: Registry) -> Mapping[str, int]:
    weights: dict[str, int] = {}
    for pair in _names(listed):
        name, _, weight = pair.partition("=")
        if not _is_between(0, HEAVIEST, weight):
            raise UsageError(f"--weights {pair}: expected NAME=N, N a whole number from 0 to {HEAVIEST}")
        if _known("--weights", name, registry.scores, registry) in weights:
            raise UsageError(f"--weights: {name} is given twice")
        weights[name] = int(weight)
    if not weights:
        raise UsageError("--weights: expected NAME=N,..., found nothing")
    return weights


def _known(flag: str, name: str, known: Collection[str], registry: Registry) -> str:
    if name in known:
        return name
    if name in registry.filters:
        raise UsageError(f"{flag}: {name} is a filter and has no weight; --plugins chooses filters")
    raise UsageError(
        f'{flag}: there is no plugin "{name}"{did_you_mean(name, known)} There are {", ".join(sorted(known))}'
    )
