"""All plugins, by name; profiles are built from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from scheduler.framework.containment import (
    FailureObserver,
    PluginFailed,
    contained_filter,
    contained_pre_filter,
    contained_score,
)
from scheduler.framework.plugin import Filter, Plugin, PreFilter, QueueSort, Score
from scheduler.framework.profile import Profile, ProfileData, Thresholds, Weighted

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True)
class Registry:
    """The classes of plugins by name, in the order to run; one that is of several kinds is listed under each.

    `installed` are the names of those from other distributions; `failures` is notified of their errors.
    """

    queue_sorts: Mapping[str, type[QueueSort]]
    pre_filters: Mapping[str, type[PreFilter]]
    filters: Mapping[str, type[Filter]]
    scores: Mapping[str, type[Score]]
    installed: frozenset[str] = frozenset()
    failures: FailureObserver | None = None

    @classmethod
    def of(cls, plugins: Iterable[type[Plugin]]) -> "Registry":
        known = tuple(plugins)
        return cls(
            queue_sorts={plugin.name: plugin for plugin in known if issubclass(plugin, QueueSort)},
            pre_filters={plugin.name: plugin for plugin in known if issubclass(plugin, PreFilter)},
            filters={plugin.name: plugin for plugin in known if issubclass(plugin, Filter)},
            scores={plugin.name: plugin for plugin in known if issubclass(plugin, Score)},
        )

    @property
    def plugins(self) -> Mapping[str, type[Plugin]]:
        return {**self.queue_sorts, **self.pre_filters, **self.filters, **self.scores}

    def with_installed(self, plugins: Iterable[type[Plugin]], failures: FailureObserver) -> "Registry":
        """Return the registry with plugins of other distributions after its own. Names are unique."""
        more = Registry.of(plugins)
        return Registry(
            {**self.queue_sorts, **more.queue_sorts},
            {**self.pre_filters, **more.pre_filters},
            {**self.filters, **more.filters},
            {**self.scores, **more.scores},
            self.installed | more.plugins.keys(),
            failures,
        )


def build(data: ProfileData, registry: Registry) -> Profile:
    """Return the profile with its plugins constructed, each once.

    Raises KeyError for an unregistered name, PluginFailed for an installed plugin that cannot be constructed.
    """
    made: dict[str, Plugin] = {}

    def plugin_of(kinds: Mapping[str, type[P]], name: str, contained: Callable[[P, FailureObserver], P]) -> P:
        if name not in made:
            made[name] = _made(kinds[name], data, registry)
        plugin: P = made[name]  # type: ignore[assignment]
        if registry.failures is None or name not in registry.installed:
            return plugin
        return contained(plugin, registry.failures)

    scores = {name: plugin_of(registry.scores, name, contained_score) for name in data.scores}
    return Profile(
        scheduler_name=data.scheduler_name,
        queue_sort=registry.queue_sorts[data.queue_sort](),
        pre_filters=tuple(plugin_of(registry.pre_filters, name, contained_pre_filter) for name in data.pre_filters),
        filters=tuple(plugin_of(registry.filters, name, contained_filter) for name in data.filters),
        scores=tuple(Weighted(scores[name], weight) for name, weight in data.scores.items()),
        percentage_of_nodes_to_score=data.percentage_of_nodes_to_score,
        thresholds=data.thresholds,
        args=data.args,
    )


def _made(kind: type[Plugin], data: ProfileData, registry: Registry) -> Plugin:
    make: Callable[..., Plugin] = kind
    if kind.args is None:
        arguments: tuple[object, ...] = ()
    else:
        arguments = (data.thresholds if kind.args is Thresholds else data.args[kind.name],)
    try:
        return make(*arguments)
    except (Exception, SystemExit) as error:
        if kind.name in registry.installed:
            raise PluginFailed(kind.name, "its constructor", error) from error
        raise
