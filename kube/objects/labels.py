"""Labels, and the selectors that choose by them, as slim frozen records."""

from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]
"""Labels or annotations, sorted by key; equal label sets are one shared object."""


class Requirement(Struct, frozen=True, gc=False):
    """One expression of a label or node selector. An unknown operator makes it malformed, not absent."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False, cache_hash=True):
    """matchLabels and matchExpressions, ANDed. Without any of them it matches everything.

    `dropped_bytes` is the size of a selector that was too large to be read: nothing else of it is known, and it matches
    nothing. It is 0 for every other.
    """

    match_labels: Pairs = ()
    match_expressions: tuple[Requirement, ...] = ()
    dropped_bytes: int = 0


class NodeSelectorTerm(Struct, frozen=True, gc=False, cache_hash=True):
    """One term of a node selector: all its requirements must hold. A term without any matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True, gc=False):
    """Terms of which any one suffices. Without terms it matches no node."""

    terms: tuple[NodeSelectorTerm, ...] = ()
