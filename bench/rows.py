"""What a measurement yields."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One number: what was measured, how much, in which unit, and what one must know to read it.

    `at_most` or `at_least` is the goal, if there is one.
    """

    name: str
    value: float
    unit: str
    detail: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.at_most is None and self.at_least is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )
