import pytest

from csi.capabilities import HealthProtocol, negotiate

CONTROLLER, TOPOLOGY = 1, 2
LIST_VOLUMES, CONDITION, GET_VOLUME, GET_HEALTH, LIST_HEALTH = 3, 11, 12, 16, 17


@pytest.mark.parametrize(
    ("rpcs", "protocol", "best_offer"),
    [
        pytest.param({CONDITION, GET_VOLUME}, HealthProtocol.CONDITION_BY_GET, "same", id="11+12"),
        pytest.param({GET_VOLUME}, HealthProtocol.EXISTENCE, "same", id="12"),
        pytest.param({LIST_VOLUMES, CONDITION, GET_VOLUME}, HealthProtocol.CONDITION_BY_GET, "same", id="3+11+12"),
        pytest.param({LIST_VOLUMES, GET_VOLUME}, HealthProtocol.EXISTENCE, "same", id="3+12"),
        pytest.param({LIST_VOLUMES, CONDITION}, None, HealthProtocol.CONDITION_BY_LIST, id="3+11"),
        pytest.param({GET_HEALTH, LIST_HEALTH}, None, HealthProtocol.HEALTH_BY_LIST, id="16+17"),
        pytest.param({GET_HEALTH}, None, HealthProtocol.HEALTH_BY_GET, id="16"),
        pytest.param({LIST_HEALTH}, None, None, id="17 without 16 breaks the spec and counts for nothing"),
        pytest.param(
            {GET_HEALTH, LIST_HEALTH, GET_VOLUME},
            HealthProtocol.EXISTENCE,
            HealthProtocol.HEALTH_BY_LIST,
            id="12+16+17",
        ),
        pytest.param({CONDITION}, None, None, id="11 alone: no call carries the condition"),
        pytest.param({LIST_VOLUMES}, None, None, id="3"),
        pytest.param(set(), None, None, id="nothing"),
    ],
)
def test_the_best_spoken_protocol_is_chosen(
    rpcs: set[int], protocol: HealthProtocol | None, best_offer: HealthProtocol | str | None
) -> None:
    negotiation = negotiate({CONTROLLER}, rpcs)
    assert negotiation.protocol is protocol
    offer = negotiation.offered[0] if negotiation.offered else None
    assert offer is (protocol if best_offer == "same" else best_offer)


def test_without_a_controller_service_nothing_can_be_asked() -> None:
    assert negotiate({TOPOLOGY}, {GET_VOLUME, CONDITION}).offered == ()


@pytest.mark.parametrize(("services", "meant"), [({CONTROLLER}, False), ({CONTROLLER, TOPOLOGY}, True)])
def test_topology_counts_only_if_announced(services: set[int], meant: bool) -> None:
    assert negotiate(services, {GET_VOLUME}).topology is meant


def test_unknown_capabilities_are_recorded_and_change_nothing() -> None:
    negotiation = negotiate({CONTROLLER, 99}, {GET_VOLUME, 4711, 99})
    assert negotiation.unknown == (99, 4711)
    assert negotiation.protocol is HealthProtocol.EXISTENCE
