"""Plugins of other distributions, found by the entry points of a group, in addition to the built-in ones.

Entry points: https://packaging.python.org/en/latest/specifications/entry-points/.
"""

from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from typing import Any, Final

from kube.configuration.document import ConfigurationError
from scheduler.framework.containment import FailureObserver
from scheduler.framework.plugin import Eviction, Filter, Plugin, PreFilter, QueueSort, Score
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.framework.registry import Registry
from scheduler.plugins.registry import REGISTRY

GROUP: Final = "pvc_prebinder.plugins"
"""Name of an entry point: that of the plugin in profiles. Its object: the class."""


def installed_registry(failures: FailureObserver) -> Registry:
    """Return all plugins. `failures` is notified when one of another distribution fails.

    Raises ConfigurationError, which names the distribution, for one that cannot be loaded or used.
    """
    plugins: dict[str, type[Plugin]] = {}
    origins = dict.fromkeys(REGISTRY.plugins, "pvc-prebinder")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _distribution(entry))):
        if entry.name in origins:
            raise _unusable(entry, f"{origins[entry.name]} has a plugin of this name")
        origins[entry.name] = _distribution(entry)
        plugins[entry.name] = _loaded(entry)
    return REGISTRY.with_installed(plugins.values(), failures)


def _loaded(entry: EntryPoint) -> type[Plugin]:
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        raise _unusable(entry, f"{entry.value} cannot be imported: {type(error).__name__}: {text}") from error
    problem = _problem(entry.name, plugin)
    if problem:
        raise _unusable(entry, f"{entry.value} {problem}")
    kind: type[Plugin] = plugin
    return kind


def _problem(name: str, plugin: Any) -> str:
    """Return what is wrong with the object of an entry point, empty if nothing is."""
    if not isinstance(plugin, type) or not issubclass(plugin, PreFilter | Filter | Score):
        return "is not a class that extends PreFilter, Filter or Score"
    if issubclass(plugin, QueueSort):
        return "is a QueueSort; only PreFilter, Filter and Score can be added"
    if isabstract(plugin):
        return f"does not define {', '.join(sorted(plugin.__abstractmethods__))}"
    if getattr(plugin, "name", None) != name:
        return f'has the name "{getattr(plugin, "name", "")}"'
    facts: Any = plugin
    if not isinstance(facts.queueing_hint, QueueingHint):
        return "has a queueing_hint that is not a QueueingHint"
    if not issubclass(plugin, Filter):
        return ""
    if not isinstance(facts.eviction, Eviction):
        return "has an eviction that is not an Eviction"
    if plugin.eviction is Eviction.INCREMENTAL and plugin.tally is Filter.tally:
        return "declares that it is incremental but defines no tally"
    return ""


def _unusable(entry: EntryPoint, problem: str) -> ConfigurationError:
    return ConfigurationError("", f"plugin {entry.name} of distribution {_distribution(entry)}: {problem}")


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"
