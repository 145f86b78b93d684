import pytest

from csi.health.capabilities import HealthProtocol, negotiate

CONTROLLER, TOPOLOGY = 1, 2
LIST_VOLUMES, CONDITION, GET_VOLUME, GET_HEALTH, LIST_HEALTH = 3, 11, 12, 16, 17


P = HealthProtocol


@pytest.mark.parametrize(
    ("rpcs", "protocol", "listing", "getting"),
    [
        pytest.param({GET_HEALTH, LIST_HEALTH}, P.HEALTH_BY_LIST, P.HEALTH_BY_LIST, True, id="16+17"),
        pytest.param(
            {LIST_VOLUMES, CONDITION, GET_VOLUME, GET_HEALTH, LIST_HEALTH},
            P.HEALTH_BY_LIST, P.HEALTH_BY_LIST, True, id="all of both generations",
        ),
        pytest.param({GET_HEALTH}, P.HEALTH_BY_GET, None, True, id="16"),
        pytest.param(
            {GET_HEALTH, LIST_VOLUMES, CONDITION, GET_VOLUME}, P.HEALTH_BY_GET, None, True, id="16 beats 3+11+12"
        ),
        pytest.param({CONDITION, GET_VOLUME}, P.CONDITION_BY_GET, None, True, id="11+12"),
        pytest.param(
            {LIST_VOLUMES, CONDITION, GET_VOLUME}, P.CONDITION_BY_GET, P.CONDITION_BY_LIST, True, id="3+11+12"
        ),
        pytest.param({LIST_VOLUMES, CONDITION}, P.CONDITION_BY_LIST, P.CONDITION_BY_LIST, False, id="3+11"),
        pytest.param({GET_VOLUME}, P.EXISTENCE, None, True, id="12"),
        pytest.param({LIST_VOLUMES, GET_VOLUME}, P.EXISTENCE, None, True, id="3+12"),
        pytest.param({LIST_HEALTH}, None, None, False, id="17 without 16 breaks the spec and counts for nothing"),
        pytest.param({LIST_HEALTH, GET_VOLUME}, P.EXISTENCE, None, True, id="12+17"),
        pytest.param({CONDITION}, None, None, False, id="11 alone: no call carries the condition"),
        pytest.param({LIST_VOLUMES}, None, None, False, id="3"),
        pytest.param(set(), None, None, False, id="nothing"),
    ],
)  # fmt: skip
def test_the_best_protocol_is_chosen(
    rpcs: set[int], protocol: HealthProtocol | None, listing: HealthProtocol | None, getting: bool
) -> None:
    negotiation = negotiate({CONTROLLER}, rpcs)
    assert negotiation.protocol is protocol
    assert negotiation.listing is listing
    assert negotiation.getting is getting


@pytest.mark.parametrize(
    ("services", "rpcs", "apart"),
    [
        pytest.param({CONTROLLER, TOPOLOGY}, {GET_HEALTH, GET_VOLUME}, True, id="health and place by two calls"),
        pytest.param({CONTROLLER}, {GET_HEALTH, GET_VOLUME}, False, id="a driver without places"),
        pytest.param({CONTROLLER, TOPOLOGY}, {GET_HEALTH}, False, id="a driver that cannot tell"),
        pytest.param({CONTROLLER, TOPOLOGY}, {CONDITION, GET_VOLUME}, False, id="both in one answer"),
    ],
)
def test_the_topology_takes_a_second_call(services: set[int], rpcs: set[int], apart: bool) -> None:
    assert negotiate(services, rpcs).needs_second_call is apart


def test_without_a_controller_service_nothing_can_be_probed() -> None:
    assert negotiate({TOPOLOGY}, {GET_VOLUME, CONDITION}).offered == ()


@pytest.mark.parametrize(("services", "meant"), [({CONTROLLER}, False), ({CONTROLLER, TOPOLOGY}, True)])
def test_topology_counts_only_if_announced(services: set[int], meant: bool) -> None:
    assert negotiate(services, {GET_VOLUME}).topology is meant


def test_unknown_capabilities_are_recorded_and_change_nothing() -> None:
    negotiation = negotiate({CONTROLLER, 99}, {GET_VOLUME, 4711, 99})
    assert negotiation.unknown == (99, 4711)
    assert negotiation.protocol is HealthProtocol.EXISTENCE
