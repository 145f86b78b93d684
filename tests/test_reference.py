"""The pages of docs/ that list what the code has: nothing is missing, and every link leads somewhere."""

import re
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pytest

from binder.reservation.contract import Annotations
from binder.reservation.release import Cause
from prebinder import cli
from prebinder.errors import ExitCode
from tests.generators import generator

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def test_the_reference_is_what_the_code_says() -> None:
    page = generator(DOCS / "generate_reference.py").page()
    assert (DOCS / "reference.md").read_text() == page, "run python docs/generate_reference.py"


def test_the_readme_is_read_in_some_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_the_generator_leaves_the_commands_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    generator(DOCS / "generate_reference.py").page()
    assert cli.run(["-h"]) == ExitCode.FINE
    assert "Usage: pvc-prebinder" in capsys.readouterr().out


def test_the_contract_lists_every_annotation() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "reservation-contract.md").read_text(), re.MULTILINE)
    listed = {key for row in rows for key in re.findall(r"`([a-z-]+)`", row)}
    keys = {name for name, value in vars(Annotations).items() if isinstance(value, cached_property)}
    public = {getattr(Annotations(""), name) for name in keys if not name.startswith("_")}
    # The gate is a name on a pod, and no annotation; the rest of the rows are the causes that end a reservation.
    assert public - {"volumes"} == listed - set(Cause)


def test_the_page_about_events_lists_every_event() -> None:
    """Besides the causes, which have pages of their own."""
    published: set[str] = set()
    for room in ("binder", "csi", "kube", "prebinder", "scheduler", "why"):
        for module in (ROOT / room).rglob("*.py"):
            text = module.read_text()
            if "EventDraft(" in text or module.stem.endswith("_words"):
                published.update(re.findall(r'^[A-Z]\w*: Final = "([A-Z]\w+)"', text, re.MULTILINE))
                published.update(re.findall(r'"(?:Normal|Warning)", "(?!Warning)([A-Z]\w+)"', text))
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "events.md").read_text(), re.MULTILINE)
    assert {reason for row in rows for reason in re.findall(r"`(\w+)`", row)} == published


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name}" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[FAQ](../faq.md#before)", "[FAQ](../faq.md#before)"),
        ("[table](../../why/texts.toml)", "table (`why/texts.toml`)"),
        ("[runbooks](../runbooks)", "runbooks (`docs/runbooks`)"),
        ("[elsewhere](https://example.com/a)", "[elsewhere](https://example.com/a)"),
    ],
)
def test_a_page_of_the_site_names_files_that_the_site_has_not(link: str, shown: str) -> None:
    file = SimpleNamespace(src_uri="causes/Bound.md")
    page = f"See {link}.\n\n```\n{link}\n```\n"
    written = generator(DOCS / "site_links.py").on_page_markdown(page, page=SimpleNamespace(file=file))
    assert written == f"See {shown}.\n\n```\n{link}\n```\n"
