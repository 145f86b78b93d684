"""`quantities.json` holds what resource.Quantity of k8s.io/apimachinery v0.36.3 (UnmarshalJSON, then the value rounded
up to nano) says about texts picked by hand and at random: `[text, nano-units]`, null where it rejects the text."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.rules.quantity import MAX_QUANTITY, NANO, QuantityError, format_quantity, parse_quantity

GOLDEN: list[tuple[str, int | None]] = json.loads(Path(__file__).with_name("quantities.json").read_text())


def read(text: str) -> int | None:
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def test_reads_what_kubernetes_reads() -> None:
    assert [(text, read(text)) for text, _ in GOLDEN] == [(text, nano) for text, nano in GOLDEN]


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("1G", "1Gi"), ("1", "1001m"), ("9223372036854775807", "200E"), ("999", "1E3"), ("1E17", "1E"), ("-2", "-1")],
)
def test_orders_exactly(smaller: str, larger: str) -> None:
    assert parse_quantity(smaller) < parse_quantity(larger)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("1e1000000000", MAX_QUANTITY),
        ("-1e1000000000", -MAX_QUANTITY),
        ("1e-1000000000", 1),
        ("9" * 100_000, MAX_QUANTITY),
        ("1" + "0" * 100_000 + "Ei", (2**63 - 1) * NANO),
        ("0." + "0" * 100_000 + "1", 1),
        ("0e2147483647", 0),
    ],
    ids=["huge", "huge-negative", "tiny", "many-digits", "many-digits-binary", "many-places", "zero"],
)
def test_impossible_sizes_cost_nothing(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    ("number", "nano"),
    [(5, 5 * NANO), (0, 0), (-1, -NANO), (1.5, 1_500_000_000), (1e22, 10**31), (0.1, 10**8), (10**2000, MAX_QUANTITY)],
)
def test_reads_numbers_without_quotes(number: float, nano: int) -> None:
    assert parse_quantity(number) == nano


@pytest.mark.parametrize("value", [True, float("nan"), float("inf")])
def test_rejects_what_is_not_a_number(value: float) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ten", "'ten' is not a quantity: expected a number and a unit such as 10Gi"),
        ("10GB", "expected a number and a unit such as 10Gi"),
        ("1ki", "the unit 'ki' is not one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"),
        ("", "'' is not a quantity"),
        ("x" * 100_000, "'" + "x" * 40 + "…' is not a quantity"),
        ("Pi", "it has no digits before the unit"),
    ],
)
def test_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "binary", "shown"),
    [
        ("10Gi", True, "10Gi"),
        ("1.5Gi", True, "1536Mi"),
        ("1000000000", True, "1G"),
        ("0.5", True, "500m"),
        ("1024", False, "1024"),
        ("8", False, "8"),
        ("0", True, "0"),
        ("-2Gi", True, "-2Gi"),
        ("1e30", True, "1000000000000E"),
        ("0.5n", True, "1n"),
    ],
)
def test_shows_the_shortest_exact_text(text: str, binary: bool, shown: str) -> None:
    assert format_quantity(parse_quantity(text), binary=binary) == shown


@given(st.integers(-MAX_QUANTITY, MAX_QUANTITY), st.booleans())
def test_what_is_shown_reads_back_as_the_same(nano: int, binary: bool) -> None:
    assert parse_quantity(format_quantity(nano, binary=binary)) == nano


@given(st.text(max_size=12) | st.text("0123456789.eEinumkKMGTP+-", max_size=12))
def test_any_text_is_read_or_rejected(text: str) -> None:
    nano = read(text)
    assert nano is None or -MAX_QUANTITY <= nano <= MAX_QUANTITY


@given(
    st.integers(0, 10**15), st.sampled_from([("k", "M", 1000), ("Ki", "Mi", 1024), ("m", "", 1000), ("", "e3", 1000)])
)
def test_a_larger_unit_is_the_same_amount(count: int, units: tuple[str, str, int]) -> None:
    small, large, step = units
    assert parse_quantity(f"{count * step}{small}") == parse_quantity(f"{count}{large}")
