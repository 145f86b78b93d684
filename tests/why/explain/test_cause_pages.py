"""The pages that `explain` prints: every code that `why` or the controller gives has one, found in any case."""

import pytest

from tests.why.test_causes_pages import FOLDER, controller_reasons, given
from why.errors import WhyError
from why.explain.cause_pages import known_code, meanings, page_of


@pytest.mark.parametrize("code", sorted(given() | controller_reasons()))
def test_each_code_is_explained(code: str) -> None:
    assert page_of(known_code(code)).startswith(f"# {code}\n")
    assert meanings()[code].endswith(".")


def test_a_code_is_found_in_any_case() -> None:
    assert known_code("topologyconflict") == "TopologyConflict"


@pytest.mark.parametrize("text", ["TopologyConflct", "../README", "README", ""])
def test_an_unknown_code_is_an_error_with_the_nearest_one(text: str) -> None:
    with pytest.raises(WhyError, match=r"^unknown code") as caught:
        known_code(text)
    assert ('did you mean "TopologyConflict"?' in str(caught.value)) is text.startswith("Topology")


def test_links_name_files_of_the_source_tree() -> None:
    for code in meanings():
        for target in page_of(code).split("](")[1:]:
            name = target.partition(")")[0].partition("#")[0]
            assert (FOLDER.parents[1] / name).is_file() or (FOLDER / name).is_file(), f"{code}: {name}"
