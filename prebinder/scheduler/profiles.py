"""The configuration of the standalone scheduler in force: from a file, or the default profile for each name."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from kube.configuration.document import ConfigurationError
from prebinder.config.installed_plugins import installed_registry
from prebinder.config.scheduler_settings import SchedulingSettings, reject_bad_names
from prebinder.errors import UsageError
from scheduler.framework.config import Configuration, parse
from scheduler.framework.containment import FailureObserver
from scheduler.plugins.registry import default_data, default_profile
from scheduler.standalone.config_watch import ConfigurationInForce, WatchedConfiguration

_PROFILES: Final = "profiles"


def configuration_for(settings: SchedulingSettings, failures: FailureObserver) -> ConfigurationInForce:
    """Return the initial configuration. Raises UsageError for a file that cannot be read or is invalid.

    The set of schedulers cannot change: their pods are watched and their Lease is named from the start. Plugins of
    other distributions are loaded when a configuration is read; `failures` is notified when one fails.
    """
    if settings.config is None:
        names = settings.scheduler_names
        begun = Configuration({name: default_profile(name) for name in names})
        return ConfigurationInForce(begun, lambda text: _parse_same(text, names, failures))
    return _watched(Path(settings.config), failures)


def _watched(path: Path, failures: FailureObserver) -> WatchedConfiguration:
    names: list[str] = []

    def parse_next(text: str) -> Configuration:
        return _parse_same(text, names, failures) if names else _parse(text, failures)

    try:
        watched = WatchedConfiguration(path, parse_next)
    except OSError as error:
        raise UsageError(f"cannot read the configuration file {path}: {error.strerror or error}") from error
    except ConfigurationError as error:
        raise UsageError(f"configuration file {path}: {error}") from error
    names += watched.current.profiles
    return watched


def _parse(text: str, failures: FailureObserver) -> Configuration:
    configuration = parse(text, installed_registry(failures), default_data)
    for place, name in enumerate(configuration.profiles):
        _check_names((name,), f"{_PROFILES}[{place}].schedulerName")
    _check_names(configuration.profiles, f"{_PROFILES}[*].schedulerName")
    return configuration


def _check_names(names: Collection[str], place: str) -> None:
    try:
        reject_bad_names(names)
    except ValueError as error:
        raise ConfigurationError(place, str(error)) from error


def _parse_same(text: str, names: Collection[str], failures: FailureObserver) -> Configuration:
    configuration = _parse(text, failures)
    if set(configuration.profiles) != set(names):
        expected, given = ", ".join(sorted(names)), ", ".join(sorted(configuration.profiles))
        raise ConfigurationError(
            f"{_PROFILES}[*].schedulerName",
            f"expected {expected}, found {given}; changed scheduler names need a restart",
        )
    return configuration
