"""Immutable maps: a change returns another map that shares nearly all of its memory with the first.

`immutables.Map`, whose last release PyPI has compiled up to Python 3.13 (github.com/MagicStack/immutables/issues/121).
For newer ones `kube.sharded_map.Map`, so that no C compiler is needed. It is slower where maps are small.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube.sharded_map import Map, MapMutation
else:
    try:
        from immutables import Map, MapMutation
    except ModuleNotFoundError:
        from kube.sharded_map import Map, MapMutation

__all__ = ("Map", "MapMutation")
