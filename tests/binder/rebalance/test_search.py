"""How the most pods that can be served are sought: within the time, and no longer."""

from math import inf

from binder.model.decision import Mode
from binder.model.demand import Demand
from binder.rebalance.competition import PodShape
from binder.rebalance.formulation import Formulation
from binder.rebalance.integer_program import IntegerProgram, Solution
from binder.rebalance.search import most_served
from tests.builders import pod

LATE = PodShape([Demand(pod("late"), Mode.PREBIND, ())], placed=0, kinds={0: ()}, needs={}, at={}, attach=())


def test_nothing_is_tried_any_more_when_the_time_is_over() -> None:
    given: list[float] = []

    def slow(program: IntegerProgram, seconds: float, /) -> Solution:
        given.append(seconds)
        return Solution(program.start, inf, seconds)

    most_served(Formulation([(0, 0)], [0], [1.0]), [LATE], slow, 0.125)
    assert given == [0.125]
