"""What a measurement yields."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One number: what was measured, how much, in which unit, and what one must know to read it."""

    name: str
    value: float
    unit: str
    detail: str = ""
