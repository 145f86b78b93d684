"""A failure names the rule, the seed, the writes that matter and what happened around them."""

from collections import Counter
from pathlib import Path

from soak.judge.deeds import DEEDS, DEEDS_IN_POOLS, DEEDS_OF_SETS
from soak.judge.writes import Authors
from soak.report import announcement, report, shown
from soak.run import Outcome
from soak.schedule import Setting, schedule
from tests.soak.judge.test_rules import commit, stage
from tests.soak.story import Story


def violated() -> Story:
    story = stage()
    commit(story, "v1")
    commit(story, "v2")
    return story


def test_both_writes_and_the_history_around_them_are_shown() -> None:
    story = violated()
    text = "\n".join(shown(story.judged().violations, story.changes, Authors(story.writes)))
    first, second = (change.revision for change in story.changes[-2:])
    assert "VIOLATED: one claim, one volume (1)" in text
    assert f"write {first} " in text
    assert f"write {second} " in text
    assert "PersistentVolume v1: claimRef=soak/c1 (uid-c1)" in text
    assert "PersistentVolumeClaim soak/c1 created" in text
    assert "Node n1" not in text


def test_the_seed_and_the_place_of_the_record_are_named() -> None:
    story = violated()
    outcome = Outcome(schedule(7, 60), Path("somewhere"), violations=story.judged().violations, changes=story.changes)
    lines = list(report(outcome))
    assert lines[0].startswith("seed 7: 60 s, ")
    assert "1 violations" in lines[0]
    assert lines[-1].endswith("somewhere")
    assert any(line.startswith("FAILED: 1 violations of 1 rules") for line in lines)


def test_a_clean_soak_is_two_lines_and_the_verdict() -> None:
    *counts, verdict = report(Outcome(schedule(7, 60), Path("somewhere"), deeds=Counter(DEEDS)))
    assert len(counts) == 2
    assert verdict.startswith("PASSED")


def test_what_never_took_effect_is_named() -> None:
    deeds = Counter({*DEEDS, *DEEDS_OF_SETS, *DEEDS_IN_POOLS} - {"gates removed", "holds written", "nodes selected"})
    plan = schedule(7, 60, sets=True, pools=True)
    text = "\n".join(report(Outcome(plan, Path("somewhere"), deeds=deeds)))
    assert "NEVER HAPPENED, so nothing is shown about it: gates removed, holds written, nodes selected\n" in text


def test_the_announcement_names_what_happens_how_long_it_takes_and_where_the_results_are() -> None:
    plan = schedule(7, 90)
    text = "\n".join(announcement(plan, Path("somewhere")))
    assert "seed 7" in text
    assert "for 1.5 min" in text
    assert f"{len(plan.operations)} operations, {len(plan.troubles)} faults" in text
    assert "somewhere" in text
    assert "docs/reliability.md" in text


def test_a_setting_describes_how_the_replicas_differ() -> None:
    told = str(Setting((0.0, -90.0), 0, True, "60s"))
    assert told == (
        "reservations of 60s, quarantine on, controller-1's clock 90 s behind,"
        " controller-0 limited to one request a second"
    )


def test_what_the_controllers_did_is_counted() -> None:
    judged = violated().judged()
    assert judged.deeds == {"claimRefs written": 2}
    assert judged.terms == 1
