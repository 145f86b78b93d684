"""What `why` answers to incidents of public threads: the code, the true cause in its words, and advice that helps."""

import re
from string import Formatter
from typing import Final

import pytest

from tests.why.documents import why
from tests.why.incidents.incident import Incident, incidents
from tests.why.incidents.judgement import PARTS, advice_of, judged, rates, report
from why.causes.texts.table import MAX_CHARACTERS, TextRow, row_for, rows

INCIDENTS: Final = {incident.name: incident for incident in incidents()}
CHANGES: Final = re.compile(
    r"\b(?:annotate|apply|create|debug|delete|drain|edit|exec|patch|rollout|scale|taint|uncordon)\b"
)
LOSES: Final = re.compile(r"\b(?:delet\w+|finalizers?|force\w*|format|give back|mkfs|repair\w*|taint|wipe\w*)\b")
CHECKS: Final = re.compile(r"\b(?:before|check|first|only then|snapshot)\b")
OF_PODS: Final = frozenset({"namespace", "pod", "node"})


def test_names_are_unique_and_sources_are_given() -> None:
    every = list(incidents())
    assert len(INCIDENTS) == len(every)
    assert all(re.match(r"https://", incident.source) and incident.truth for incident in every)


@pytest.mark.parametrize("incident", INCIDENTS.values(), ids=INCIDENTS)
def test_the_answer_names_the_cause_and_what_helps(incident: Incident) -> None:
    item = why(incident.target, *incident.documents)
    judgement = judged(incident)
    helps = advice_of(item)
    assert set(judgement.wrong) == ({"cause"} if incident.unknown else set()), (judgement, item)
    assert not incident.next or item.next == tuple(incident.next)
    assert not any(CHANGES.search(command) for command in item.next)
    assert not LOSES.search(helps) or CHECKS.search(helps), helps


@pytest.mark.parametrize("incident", INCIDENTS.values(), ids=INCIDENTS)
def test_the_error_is_explained_by_its_row_or_has_a_reason_why_it_cannot_be(incident: Incident) -> None:
    explanation = row_for(incident.during, incident.error)
    assert (explanation[0].name if explanation else "") == incident.text
    assert bool(incident.unknown) != bool(incident.words and incident.advice)


@pytest.mark.parametrize("part", PARTS)
def test_of_all_incidents_this_part_of_the_answer_is_right_in_95_percent(part: str) -> None:
    assert rates(judged(incident).wrong for incident in INCIDENTS.values())[part] >= 0.95, "\n".join(report())


def test_what_was_wrong_at_the_first_try_is_on_record_for_rounds_that_were_held_out() -> None:
    assert all(set(incident.missed) <= set(PARTS) for incident in INCIDENTS.values())
    assert not any(incident.missed for incident in INCIDENTS.values() if incident.round == 1)


def test_every_row_has_an_incident() -> None:
    assert {row.name for row in rows()} - {incident.text for incident in INCIDENTS.values()} == set()
    assert len({row.name for row in rows()}) == len(rows())


def fields(row: TextRow) -> set[str]:
    texts = (row.cause, row.advice, row.command)
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("row", rows(), ids=[row.name for row in rows()])
def test_a_row_uses_only_names_that_it_has_and_endangers_nothing(row: TextRow) -> None:
    known = OF_PODS if set(row.during) <= {"attach", "mount"} else {"namespace"}
    known |= {"storage_class"} if list(row.during) == ["provision"] else set()
    assert fields(row) <= {*row.pattern.groupindex, *known}
    assert row.source
    assert not CHANGES.search(row.command)
    assert not LOSES.search(row.advice) or CHECKS.search(row.advice)
    assert not row.cause.endswith(".")


def test_of_a_long_error_only_the_beginning_is_searched() -> None:
    text = "mount.nfs: Connection timed out"
    assert row_for("mount", text) is not None
    assert row_for("mount", f"{'x' * MAX_CHARACTERS}{text}") is None
