"""Requirements on labels, compiled to sets: a test takes as long as there are labels, not requirements.

Users write the requirements, as many as fit into an object of 1.5 MB, and they are tested on thousands of objects.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from kube.objects.labels import Requirement

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
"""As long as a label's value can be: leading zeros count for nothing."""


class ValueTest(Struct, frozen=True, gc=False):
    """All requirements on the label of one key. `allowed` is None if every value is."""

    required: bool = False
    forbidden: bool = False
    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    above: int | None = None
    below: int | None = None

    def holds(self, value: str | None) -> bool:
        """Whether the label may have this value; None: whether it may be absent."""
        if value is None:
            return not self.required
        if self.forbidden or value in self.denied or (self.allowed is not None and value not in self.allowed):
            return False
        return (self.above is None and self.below is None) or self._is_between(whole_number(value))

    def _is_between(self, number: int | None) -> bool:
        if number is None:
            return False
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)


class LabelTest(Struct, frozen=True, gc=False):
    """Requirements by key. `required` are the keys of labels that must be there."""

    tests: dict[str, ValueTest]
    required: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy every requirement."""
        if len(self.required) > len(labels) or any(key not in labels for key in self.required):
            return False
        tests = self.tests
        if len(tests) <= len(labels):
            return all(test.holds(labels.get(key)) for key, test in tests.items())
        return all(tests[key].holds(value) for key, value in labels.items() if key in tests)


def label_test(requirements: Iterable[Requirement]) -> LabelTest:
    """Compile requirements that are valid."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    tests = {key: value_test(about) for key, about in by_key.items()}
    return LabelTest(tests, tuple(key for key, test in tests.items() if test.required))


def value_test(requirements: Iterable[Requirement]) -> ValueTest:
    """Compile valid requirements on the label of one key."""
    by_operator: dict[str, list[tuple[str, ...]]] = {}
    for requirement in requirements:
        by_operator.setdefault(requirement.operator, []).append(requirement.values)
    sets = [frozenset(values) for values in by_operator.get("In", ())]
    return ValueTest(
        required=not by_operator.keys().isdisjoint(_NEED_THE_LABEL),
        forbidden="DoesNotExist" in by_operator,
        allowed=frozenset.intersection(*sets) if sets else None,
        denied=frozenset().union(*by_operator.get("NotIn", ())),
        above=max(_bounds(by_operator, "Gt"), default=None),
        below=min(_bounds(by_operator, "Lt"), default=None),
    )


def whole_number(text: str) -> int | None:
    """Parse what Go's ParseInt parses into 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


_NEED_THE_LABEL: Final = frozenset({"In", "Exists", "Gt", "Lt"})


def _bounds(by_operator: Mapping[str, list[tuple[str, ...]]], operator: str) -> Iterable[int]:
    return (bound for values in by_operator.get(operator, ()) if (bound := whole_number(values[0])) is not None)
