"""The schedule is the seed's, and whatever it names can be done."""

from itertools import pairwise

from soak.schedule import DRIVER_KINDS, FAULT_KINDS, NETWORK_KINDS, OPERATION_KINDS, PROVISIONER_KINDS, schedule
from soak.terrain import claims, pod, volume
from soak.users import Users


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert schedule(7, 120) == schedule(7, 120)
    assert schedule(7, 120).operations != schedule(8, 120).operations


def test_a_longer_run_begins_alike() -> None:
    short, long = schedule(7, 60), schedule(7, 600)
    assert long.setting == short.setting
    assert long.operations[: len(short.operations)] == short.operations
    assert long.faults[: len(short.faults)] == short.faults
    assert long.network[: len(short.network)] == short.network
    assert long.driver[: len(short.driver)] == short.driver


def test_faults_of_a_lane_do_not_overlap() -> None:
    for seed in range(20):
        plan = schedule(seed, 600)
        for lane in (plan.faults, plan.network, plan.driver):
            assert all(before.at + before.seconds < after.at for before, after in pairwise(lane))


def test_there_is_a_hand_for_every_operation() -> None:
    assert [kind for kind in OPERATION_KINDS if not hasattr(Users, "_" + kind.replace("-", "_"))] == []


def test_every_kind_happens() -> None:
    plans = [schedule(seed, 600, sets=True, pools=True) for seed in range(20)]
    seen = {operation.kind for plan in plans[:5] for operation in plan.operations}
    assert seen == set(OPERATION_KINDS)
    assert {fault.kind for plan in plans for fault in plan.network} == set(NETWORK_KINDS)
    assert {fault.kind for plan in plans for fault in plan.driver} == set(DRIVER_KINDS)
    assert {fault.kind for plan in plans for fault in plan.faults} == set(FAULT_KINDS)
    assert {fault.kind for plan in plans for fault in plan.provisioner} == set(PROVISIONER_KINDS)


def test_sets_and_pools_come_on_top_of_what_the_seed_does_without() -> None:
    plain, more = schedule(7, 120), schedule(7, 120, sets=True, pools=True)
    assert set(plain.operations) < set(more.operations)
    assert set(plain.troubles) < set(more.troubles)
    assert plain.provisioner == ()


def test_a_name_always_means_the_same_object() -> None:
    assert claims(3) == claims(3)
    assert pod(3, gated=True)["spec"]["volumes"] == pod(3, gated=False)["spec"]["volumes"]
    assert claims(9)[0] == claims(8)[0]
    assert volume("local", 5) == volume("local", 5)
