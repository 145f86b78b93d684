"""What is printed about a soak: before it what it does, after it one line of counts and the verdict, and for each
violation its window of history and its writes.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from soak.judge import facts
from soak.judge.deeds import DEEDS, DEEDS_IN_POOLS, DEEDS_OF_SETS
from soak.judge.history import Change
from soak.judge.rules import Violation
from soak.judge.writes import Authors
from soak.run import Outcome
from soak.schedule import Schedule, Setting

SHOWN_OF_A_RULE: Final = 3
_BEFORE: Final = 12
_AFTER: Final = 4
_MAX_LINE_CHARACTERS: Final = 500
_SECONDS: Final = 60.0


def announcement(plan: Schedule, directory: Path) -> Iterator[str]:
    """Yield what a newcomer needs to know before a soak."""
    minutes = plan.seconds / _SECONDS
    yield (
        f"Soak test, seed {plan.seed}: two controllers and a scheduler of this tree run on a real control plane, while"
        f" random users, administrators and faults disturb them for {minutes:g} min."
    )
    yield "Then a judge that shares no code with the product checks every version of every object; its rules are in"
    yield "docs/reliability.md."
    yield f"This seed: {len(plan.operations)} operations, {len(plan.troubles)} faults; {plan.setting}"
    yield f"It takes about 1 min to start and at most 5 min to come to rest. Everything is kept in {directory}"
    yield ""


def report(outcome: Outcome) -> Iterator[str]:
    """Yield the lines."""
    plan = outcome.schedule
    yield (
        f"seed {plan.seed}: {plan.seconds:.0f} s, {outcome.operations.total()} operations"
        f" ({outcome.rejected.total()} rejected), {outcome.faults.total()} faults, {outcome.states} states,"
        f" {outcome.own_writes} writes of ours, {len(outcome.violations)} violations"
    )
    done = ", ".join(f"{count} {deed}" for deed, count in sorted(outcome.deeds.items()))
    yield f"the controllers, in {outcome.terms} terms: {done or 'nothing'}"
    never = [deed for deed in _expected(plan.setting) if not outcome.deeds[deed]]
    if never:
        yield f"NEVER HAPPENED, so nothing is shown about it: {', '.join(never)}"
    yield from shown(outcome.violations, outcome.changes, outcome.authors)
    if not outcome.violations:
        yield "PASSED: no rule was violated."
        return
    rules = len({violation.rule for violation in outcome.violations})
    yield ""
    yield f"FAILED: {len(outcome.violations)} violations of {rules} rules, with the writes that led to them above."
    yield f"seed {plan.seed}, {plan.setting}"
    yield f"to judge the record again: python -m soak --judge {outcome.directory}"
    yield f"history, audit log and logs: {outcome.directory}"


def _expected(setting: Setting) -> tuple[str, ...]:
    sets, pools = DEEDS_OF_SETS if setting.sets else (), DEEDS_IN_POOLS if setting.pools else ()
    return (*DEEDS, *sets, *pools)


def shown(violations: Sequence[Violation], changes: Sequence[Change], authors: Authors) -> Iterator[str]:
    """Yield the first violations of each rule."""
    by_rule = sorted(violations, key=lambda violation: violation.rule)
    for rule, group in groupby(by_rule, key=lambda violation: violation.rule):
        broken = list(group)
        yield ""
        yield f"VIOLATED: {rule} ({len(broken)})"
        for violation in broken[:SHOWN_OF_A_RULE]:
            yield from _shown(violation, changes, authors)


def _shown(violation: Violation, changes: Sequence[Change], authors: Authors) -> Iterator[str]:
    yield f"- {violation.text}"
    for revision in violation.revisions:
        yield from (f"    write {write}" for write in authors.writes if revision and write.revision == revision)
    yield from (f"    {line}" for line in window(violation, changes, authors))


def window(violation: Violation, changes: Sequence[Change], authors: Authors) -> Iterator[str]:
    """Yield the changes around a violation that concern the objects it is about."""
    if not violation.revisions:
        return
    last = violation.revisions[-1]
    about = {name for change in changes if change.revision in violation.revisions for name in _names(change)}
    end = next((change.at for change in changes if change.revision == last), 0.0)
    near = [
        change
        for change in changes
        if change.kind != "Lease" and abs(change.at - end) < _SECONDS and about & set(_names(change))
    ]
    place = next((number for number, change in enumerate(near) if change.revision >= last), len(near))
    for change in near[max(0, place - _BEFORE) : place + _AFTER]:
        write = authors.of(change.kind, change.key, change.revision)
        who = "?" if write is None else f"{write.party}:{write.agent.split('/')[0]}:{write.credential[-4:]}"
        mark = ">" if change.revision in violation.revisions else " "
        yield f"{mark} {change.revision} {change.at:.3f} {who} {_described(change)}"


def _names(change: Change) -> list[str]:
    """The object itself, and the claim or volume that it names."""
    names = [f"{change.kind} {change.key}"]
    if change.kind == "PersistentVolume":
        for version in (change.before, change.after):
            for named in (facts.reference(version), facts.reserved_for(version)):
                names += [f"PersistentVolumeClaim {named[0]}"] if named else []
    elif change.kind == "Pod":
        names += [f"PersistentVolumeClaim {key}" for key in facts.claim_keys(change.object)]
    return names


def _described(change: Change) -> str:
    if change.after is None:
        return f"{change.kind} {change.key} deleted"
    if change.before is None:
        return f"{change.kind} {change.key} created"
    leaves = facts.changed_fields(change.before, change.after)
    paths = [path for path in leaves if not path.startswith(("metadata.managedFields", "spec.claimRef"))]
    parts = [f"{path}={_value(change.after, path)}" for path in paths]
    before, after = facts.reference(change.before), facts.reference(change.after)
    if before != after:
        parts.append("claimRef=" + ("-" if after is None else f"{after[0]} ({after[1] or 'no uid'})"))
    shown = ", ".join(parts).replace(f"metadata.annotations.{facts.PREFIX}", "@").replace("metadata.annotations.", "@")
    return f"{change.kind} {change.key}: {shown}"[:_MAX_LINE_CHARACTERS]


def _value(part: object, path: str) -> str:
    """Return the value at a path; annotation keys contain dots, so each step takes the longest key that fits."""
    while path and isinstance(part, dict):
        here = [key for key in part if path == key or path.startswith(f"{key}.")]
        if not here:
            return "-"
        key = max(here, key=len)
        part, path = part[key], path[len(key) + 1 :]
    return str(part)[:80]
