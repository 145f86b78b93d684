"""docs/causes has a page of one form for each code that `why` or the controller can give, and an index of them."""

import re
from pathlib import Path
from typing import Final

import pytest

from binder.matching.rejection import Reason
from tests.why.page_examples import EXAMPLES, ControllerEvent, example_on, page_of

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "causes"
INDEX: Final = FOLDER / "README.md"
PAGES: Final = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)

ABOUT_NODES_AND_VOLUMES: Final = {
    Reason.CLAIMED_BY_OTHER,
    Reason.CLASS_MISMATCH,
    Reason.DISK_IN_USE,
    Reason.EXISTING_POD_ANTI_AFFINITY,
    Reason.EXPLANATION_PENDING,
    Reason.HOST_PORT_TAKEN,
    Reason.INSUFFICIENT_RESOURCES,
    Reason.NODE_SELECTOR_MISMATCH,
    Reason.NODE_UNSCHEDULABLE,
    Reason.POD_AFFINITY_MISMATCH,
    Reason.POD_ANTI_AFFINITY,
    Reason.TAINT_NOT_TOLERATED,
    Reason.TOPOLOGY_SPREAD,
    Reason.VOLUME_UNREACHABLE,
    Reason.VOLUME_ZONE_MISMATCH,
}
"""Reasons that `why` counts as evidence, and gives as the code of nothing."""

NOT_OF_A_PENDING_CLAIM: Final = {Reason.NO_UNBOUND_CLAIM, Reason.POD_ENDED}
"""What the controller says of pods whose claims are bound, or that have ended: no claim waits for it."""
REJECTING: Final = (
    "planning/claim_standing",
    "planning/explain",
    "planning/pending",
    "planning/plan",
    "planning/pod_demand",
    "reporting/rejection_note",
)
"""Modules of binder that give a claim or a pod its reason; the controllers hand it on."""

HEADINGS: Final = ["## How to see it", "## How to fix it", "## Example"]


def given() -> set[str]:
    """Return the codes that `why` can give, by its source; `match` states what Kubernetes would do, not a cause."""
    named = set()
    for module in {*(ROOT / "why").rglob("*.py")} - {*(ROOT / "why" / "match").rglob("*.py")}:
        named |= {Reason[name] for name in re.findall(r"\bReason\.([A-Z_]+)", module.read_text())}
    assert named >= ABOUT_NODES_AND_VOLUMES
    return {str(code) for code in named - ABOUT_NODES_AND_VOLUMES}


def controller_reasons() -> set[str]:
    """Return the codes that the controller can give to a claim that is not bound: in its Events and metrics."""
    named = set()
    for module in REJECTING:
        text = (ROOT / "binder" / f"{module}.py").read_text()
        named |= {Reason[name] for name in re.findall(r"\bReason\.([A-Z_]+)", text)}
    assert named >= NOT_OF_A_PENDING_CLAIM
    return {str(code) for code in named - NOT_OF_A_PENDING_CLAIM}


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {page.stem for page in PAGES} == given() | controller_reasons()


def test_the_index_lists_every_page_with_one_line() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| \S.*\. \|$", INDEX.read_text(), re.MULTILINE)
    assert rows == [(code, code) for code in sorted((page.stem for page in PAGES), key=str.lower)]
    assert len(rows) == INDEX.read_text().count("\n| [")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_it_means_how_to_see_it_how_to_fix_it_and_shows_it(page: Path) -> None:
    text = page.read_text()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [f"# {page.stem}", *HEADINGS]
    _, seeing, fixing, example = re.split(r"^## .*$", text, flags=re.MULTILINE)
    commands = seeing.split("```")[1].strip().splitlines()
    assert commands
    assert all(re.match(r"(kubectl|pvc-prebinder) ", command) for command in commands)
    assert not re.search(r" (delete|patch|annotate|replace|taint|drain|release) ", seeing)
    assert fixing.strip().startswith("1. ")
    shown = rf"[✗○?] .* · {page.stem}\n  \S[^`]*(`[^`]+`[^`]*)*\n"
    if page.stem not in given():
        shown = rf"((Warning|Normal) .*|pvc_prebinder_pending_claims\{{reason=\"{page.stem}\"[^`]*)\n(  \S.*\n)*"
    assert re.fullmatch(rf"\n\n```\n{shown}```\n", example)


@pytest.mark.parametrize("code", EXAMPLES, ids=str)
def test_an_example_is_what_the_program_prints(code: Reason) -> None:
    shown, example = example_on(page_of(code)), EXAMPLES[code]
    if isinstance(example, ControllerEvent):
        assert shown.split() == example.text().split()
    else:
        assert shown == example.text(), "run python -m tests.why.page_examples"


def test_only_metrics_and_the_event_of_success_are_compared_with_nothing() -> None:
    others = {page.stem for page in PAGES} - {str(code) for code in EXAMPLES}
    assert others == {"AlreadyReserved", "BindingModeMissing", "DynamicClass", "ModeOff"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_step_that_deletes_something_says_what_is_lost(page: Path) -> None:
    fixing = page.read_text().split("## How to fix it")[1].split("## Example")[0]
    for step in re.split(r"^\d\. ", fixing, flags=re.MULTILINE):
        if re.search(r"\b(delete (the|that|claims|your)|replace --force|out-of-service)\b", step, re.IGNORECASE):
            assert re.search(r"\b(lost|do not delete)\b", step, re.IGNORECASE), step


@pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).is_file(), target
