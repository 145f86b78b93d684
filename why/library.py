"""`why` for other programs: analyzers, operators, bots. Objects in, a WhyReport out; docs/why.md describes it.

This module and the JSON of the report are stable: within `pvc-prebinder/v1alpha1` arguments and fields are added, never
changed or removed. Everything else in the package may change.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from binder.reservation.contract import DEFAULT_PREFIX
from why.errors import WhyError
from why.explain.answering import report_on, with_faults
from why.explain.targets import parse_target
from why.facts.facts import Source
from why.reading.dump import facts_of_dump
from why.reading.gathering import Gathering
from why.reading.objects import pass_objects
from why.report.report import Evidence, Item, Link, Skipped, WhyReport

__all__ = ["Evidence", "Item", "Link", "Skipped", "WhyError", "WhyReport", "explain"]


def explain(
    objects: Iterable[Mapping[str, Any]],
    targets: Sequence[str] = (),
    *,
    namespace: str = "",
    complete: Collection[str] = (),
    now: datetime | None = None,
    annotation_prefix: str = DEFAULT_PREFIX,
) -> WhyReport:
    """Return why these objects of a cluster are pending, or all that are.

    `objects` are documents as the API returns them, lists too, with `apiVersion` and `kind`. `targets` are written as
    on the command line, such as `pod/web-0`, and are in `namespace`, by default "default"; without any, everything
    pending in the namespace, or in all, is explained. `complete` are the resources, such as `persistentvolumes`, of
    which the objects are all that the cluster has: of others a kind without any object counts as not read, so that its
    lack never becomes a cause. Nothing is read or written besides.

    Raises ValueError for a target or a resource that cannot be, WhyError for a target that does not exist.
    """
    parsed = tuple(parse_target(target) for target in targets)
    read = frozenset(Source(resource) for resource in complete)
    gathering = Gathering(annotation_prefix)
    for document in objects:
        pass_objects(memoryview(msgspec.json.encode(document)), "an object", gathering)
    facts = facts_of_dump(gathering, now or datetime.now(UTC), read)
    chosen = namespace or ("default" if parsed else "")
    return with_faults(report_on(facts, parsed, chosen), gathering.faults)
