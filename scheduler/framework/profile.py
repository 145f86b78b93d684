"""A profile: which plugins run, in what order, with which weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kube.objects.constraints import PreferredNodes
from kube.objects.labels import NodeSelector
from scheduler.framework.plugin import Filter, PreFilter, QueueSort, Score

ALL_NODES: Final = 100


@dataclass(frozen=True, slots=True)
class AddedAffinity:
    """Node affinity of all pods of a profile, beside their own (NodeAffinityArgs.addedAffinity of kube-scheduler)."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredNodes, ...] = ()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers and names that plugins use.

    `storage_label`: nodes without this label get no local volumes; empty requires none. `resources`: the weight of each
    resource in LeastAllocated and BinPack; Balanced uses the same ones, without weights.
    """

    storage_label: str = ""
    resources: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    added_affinity: AddedAffinity = AddedAffinity()


@dataclass(frozen=True, slots=True)
class Weighted:
    """A score and its weight, which is at least 1."""

    plugin: Score
    weight: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins for pods that name this scheduler.

    `percentage_of_nodes_to_score`: stop searching for nodes once that many percent of all fit (at least 100 nodes); 0
    adapts to the cluster's size as kube-scheduler does. Binding volumes and pods is not part of it: that is composed
    for each term as leader (scheduler.binding.binding_cycle.BindingPlugins).
    """

    scheduler_name: str
    queue_sort: QueueSort
    pre_filters: tuple[PreFilter, ...]
    filters: tuple[Filter, ...]
    scores: tuple[Weighted, ...]
    percentage_of_nodes_to_score: int = 0
    thresholds: Thresholds = field(default_factory=Thresholds)
    args: Mapping[str, object] = field(default_factory=dict)
    """What its plugins were constructed with: `args` by the name of the plugin, for those that take args of their
    own.
    """


@dataclass(frozen=True, slots=True)
class ProfileData:
    """A profile as data, as in a configuration file. Names are those of the registry, in the order to run.

    `args` are decoded, by the name of the plugin: every plugin that takes args of its own has an entry.
    """

    scheduler_name: str
    queue_sort: str
    pre_filters: tuple[str, ...]
    filters: tuple[str, ...]
    scores: Mapping[str, int]
    thresholds: Thresholds = field(default_factory=Thresholds)
    percentage_of_nodes_to_score: int = 0
    args: Mapping[str, object] = field(default_factory=dict)
