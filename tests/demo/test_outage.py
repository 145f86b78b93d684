"""What the second act of the demo waits for, told from the rows of its table."""

import pytest

from demo.outage import all_but_one_served, all_served, rejected, served
from demo.view import Row


def rows(*states: str) -> list[Row]:
    """A claim of the first act, then one in each of these states for the pods of the shop."""
    database = Row("data-db-0", "db-0", "zone-a", "a-large", "✓ Healthy", "Bound", 9.0, 3.0)
    return [database] + [
        Row(f"index-shop-{number}", f"shop-{number}", "", f"v{number}", "", state, 1.0, None)
        for number, state in enumerate(states)
    ]


REJECTED = "Rejected (StaticOnlyNoMatch)"


@pytest.mark.parametrize(
    ("states", "all_but_one", "everyone"),
    [
        pytest.param((), False, False, id="no pod yet"),
        pytest.param(("Bound", "Bound"), False, False, id="the last pod is not there yet"),
        pytest.param(("Bound", "Bound", "Pending"), False, False, id="the last one was not told yet"),
        pytest.param(("Bound", REJECTED, "Bound"), True, False, id="one waits, whichever"),
        pytest.param(("Bound", REJECTED, REJECTED), False, False, id="two wait"),
        pytest.param(("Bound", "Bound", "Bound"), False, True, id="all have theirs"),
    ],
)
def test_when_the_shop_is_served(states: tuple[str, ...], all_but_one: bool, everyone: bool) -> None:
    assert all_but_one_served(rows(*states)) is all_but_one
    assert all_served(rows(*states)) is everyone


def test_served_and_waiting_pods_are_listed() -> None:
    seen = rows("Bound", REJECTED, "Bound")
    assert served(seen) == "shop-0 has v0, shop-2 has v2"
    assert rejected(seen) == "shop-1"
    assert rejected(rows("Bound")) == ""
