"""What controllers may do with volumes of the driver that misbehaves."""

import json

import pytest

from soak.judge.driver import KNOWN_WITHIN, judge_driver, read_record
from soak.judge.facts import PREFIX, PROBED_DRIVER
from soak.judge.history import Change, Object
from soak.judge.writes import Authors, Party, Write

EVENTS = [
    {"at": 100.0, "volume": "v", "state": "DataLoss"},
    {"at": 200.0, "volume": "v", "state": "Healthy"},
    {"at": 300.0, "trouble": "flood"},
    {"at": 400.0, "trouble": ""},
    {"at": 500.0, "trouble": "lie"},
    {"at": 600.0, "trouble": ""},
    {"at": 690.0, "trouble": "hang"},
    {"at": 700.0, "volume": "v", "state": "Degraded"},
    {"at": 750.0, "trouble": ""},
]
RECORD = read_record(json.dumps(event) for event in EVENTS)


def volume(driver: str = PROBED_DRIVER, **annotations: str) -> Object:
    own = {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = {"name": "v", "resourceVersion": "1", "annotations": own}
    return {"metadata": metadata, "spec": {"csi": {"driver": driver}}, "status": {"phase": "Available"}}


RESERVED = {"reserved_for": "ns/claim", "reserved_for_uid": "uid"}


def committed(name: str = "claim") -> Object:
    document = volume()
    document["spec"]["claimRef"] = {"namespace": "ns", "name": name, "uid": "uid"}
    return document


def violations(at: float, after: Object, before: Object | None = None, party: Party = Party.CONTROLLER) -> list[str]:
    change = Change(7, at, "PersistentVolume", "v", before or volume(), after)
    write = Write(7, party, "u", "a", "c", "patch", "PersistentVolume", "v", "", 200, at)
    return [violation.text for violation in judge_driver([change], Authors([write]), RECORD)]


@pytest.mark.parametrize(
    ("at", "says"),
    [
        pytest.param(99, "", id="before anything happened"),
        pytest.param(100 + KNOWN_WITHIN, "", id="just unhealthy"),
        pytest.param(125, "has reported DataLoss for 25 s", id="unhealthy"),
        pytest.param(201, "", id="healthy again"),
        pytest.param(300 + KNOWN_WITHIN, "", id="just out of its mind"),
        pytest.param(330, "has not answered (flood) for 30 s", id="nothing can be learned"),
        pytest.param(401, "", id="it answers again"),
        pytest.param(550, "", id="a lie is no reason"),
        pytest.param(740, "has not answered (hang) for 50 s", id="nothing, and unhealthy"),
        pytest.param(765, "", id="unhealthy, as it can just report"),
        pytest.param(775, "has reported Degraded for 25 s", id="unhealthy, as it has reported for a while"),
    ],
)
@pytest.mark.parametrize("after", [volume(**RESERVED), committed()], ids=["reserved", "committed"])
def test_a_volume_is_taken(at: float, says: str, after: Object) -> None:
    assert [says in text for text in violations(at, after)] == ([True] if says else [])


@pytest.mark.parametrize(
    ("after", "before", "party"),
    [
        pytest.param(volume(**RESERVED), volume(**RESERVED), Party.CONTROLLER, id="a reservation that was there"),
        pytest.param(committed(), committed(), Party.CONTROLLER, id="a claimRef that was there"),
        pytest.param(volume(**RESERVED), volume(), Party.OTHER, id="by others"),
        pytest.param(volume("other", **RESERVED), volume("other"), Party.CONTROLLER, id="of another driver"),
        pytest.param(volume(), volume(**RESERVED), Party.CONTROLLER, id="given back"),
    ],
)
def test_what_is_no_taking(after: Object, before: Object, party: Party) -> None:
    assert violations(125, after, before, party) == []
