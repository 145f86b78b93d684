"""`pluginConfig` of a profile in the configuration file: its plugins' arguments, decoded by the type that each
declares.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from annotated_types import Len

from kube.configuration.document import ConfigurationError, Place, decode_part, dump_part, path_of
from kube.configuration.fields import CAMEL_KEYS
from kube.configuration.nearest import nearest
from scheduler.framework.profile import ProfileData, Thresholds
from scheduler.framework.registry import Registry

KEY: Final = "pluginConfig"


@dataclass(frozen=True, slots=True)
class PluginEntry:
    __pydantic_config__ = CAMEL_KEYS

    name: Annotated[str, Len(1, 253)]
    """The plugin; the profile has to name it among its preFilters, filters or scores too."""
    args: dict[str, Any] = field(default_factory=dict)


def decoded_args(
    data: ProfileData, entries: Sequence[PluginEntry], registry: Registry, text: str, profile: Place
) -> Mapping[str, object]:
    """Return the args of each plugin of a profile that takes args of its own.

    Raises ConfigurationError for the first invalid entry, and for missing args.
    """
    used = dict.fromkeys((*data.pre_filters, *data.filters, *data.scores))
    given: dict[str, object] = {}
    for number, entry in enumerate(entries):
        place = (*profile, KEY, number)
        _check(entry, path_of(place), registry, used, given)
        given[entry.name] = decode_part(_args_of(registry, entry.name), entry.args, text, (*place, "args"))
    for name in used:
        if name not in given and _takes_args(registry, name):
            try:
                given[name] = decode_part(_args_of(registry, name), {}, text, (*profile, KEY))
            except ConfigurationError as error:
                problem = f"{name} has no args here, and needs {error.place.rpartition('.')[2]}"
                raise ConfigurationError(path_of((*profile, KEY)), problem, error.line) from error
    return given


def plugin_config(args: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the entries that `decoded_args` decodes to the same values."""
    return [{"name": name, "args": dump_part(value)} for name, value in args.items()]


def check_known(path: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigurationError for a plugin name that does not exist."""
    if name not in known:
        meant = nearest(name, known)
        rest = f'did you mean "{meant}"?' if meant else f"expected some of {', '.join(sorted(known))}"
        raise ConfigurationError(path, f'there is no "{name}"; {rest}')


def _check(
    entry: PluginEntry, path: str, registry: Registry, used: Collection[str], given: Mapping[str, object]
) -> None:
    name = entry.name
    check_known(f"{path}.name", name, registry.plugins)
    if name in given:
        raise ConfigurationError(f"{path}.name", f'"{name}" is listed twice')
    if not _takes_args(registry, name):
        raise ConfigurationError(f"{path}.name", f"{name} takes no args")
    if name not in used:
        raise ConfigurationError(f"{path}.name", f"{name} is none of this profile's preFilters, filters and scores")


def _takes_args(registry: Registry, name: str) -> bool:
    return registry.plugins[name].args not in (None, Thresholds)


def _args_of(registry: Registry, name: str) -> type[Any]:
    kind = registry.plugins[name].args
    assert kind is not None
    return kind
