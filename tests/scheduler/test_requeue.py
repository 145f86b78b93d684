from hypothesis import given, settings
from hypothesis import strategies as st

from kube.model import Pod, Record
from scheduler.catalog import default_profile
from scheduler.change import Change
from scheduler.cycle import Unschedulable, decide
from scheduler.diagnosis import Diagnoser
from scheduler.hints import may_help
from scheduler.requeue import Changes, wanted_by
from tests.scheduler.worlds import VARIANTS, WAITING, Told, World

PROFILE = default_profile("ours")

worlds = st.fixed_dictionaries({slot: st.sampled_from([*variants, None]) for slot, variants in VARIANTS.items()})
steps = st.sampled_from([(slot, record) for slot, variants in VARIANTS.items() for record in (*variants, None)])


def woken_and_fitting(pod: Pod, world: World, happening: list[tuple[str, Record | None]]) -> tuple[bool, bool]:
    """Whether one of the steps would wake the pod that was refused before them; and whether it fits after them."""
    cluster = Told(world)
    refused = decide(pod, cluster.view(), PROFILE)
    if not isinstance(refused, Unschedulable):
        return True, True
    refused_by, wanted = Diagnoser().diagnose(refused).refused_by, wanted_by(refused)
    told: list[Change] = []
    with Changes(cluster.store, told.append).following():
        for slot, record in happening:
            cluster.show(slot, record)
    woken = any(may_help(pod, refused_by, change, wanted) for change in told)
    return woken, not isinstance(decide(pod, cluster.view(), PROFILE), Unschedulable)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(WAITING), worlds, st.lists(steps, min_size=1, max_size=4))
def test_whatever_lets_a_refused_pod_in_wakes_it(
    pod: Pod, world: World, happening: list[tuple[str, Record | None]]
) -> None:
    woken, fits = woken_and_fitting(pod, world, happening)
    assert woken or not fits
