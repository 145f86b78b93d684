"""Limits of the CSI specification ("Size Limits"), and ours where it sets none: just within, and just beyond."""

from collections.abc import Callable
from typing import Any

import pytest

from csi.client.answer_checks import check_count, check_foreign, check_health, check_token, check_volume
from csi.client.channel import TooLarge
from csi.health.size_limit import SizeLimit
from csi.proto import csi_v1_pb2 as csi

VALUE = "v" * 60


def volume(segments: int, size: int) -> csi.Volume:
    """A volume with so many topology segments of so many bytes, in pairs of at most 63 bytes each."""
    pairs = {f"k{number:03}": "v" * min(60, size - 64 * number - 4) for number in range((size + 63) // 64)}
    return csi.Volume(volume_id="v", accessible_topology=[csi.Topology(segments=pairs)] * segments)


def health(entries: int) -> csi.VolumeHealth:
    return csi.VolumeHealth(health_statuses=[csi.VolumeHealth.VolumeHealthEntry(status=csi.DEGRADED)] * entries)


@pytest.mark.parametrize(
    ("check", "within", "beyond", "limit"),
    [
        pytest.param(check_token, "t" * 128, "t" * 129, SizeLimit.PAGE_TOKEN, id="page token"),
        pytest.param(check_token, "ä" * 64, "ä" * 65, SizeLimit.PAGE_TOKEN, id="page token, in bytes"),
        pytest.param(check_foreign, "v" * 1024, "v" * 1025, SizeLimit.VOLUME_ID, id="identifier of an unknown volume"),
        pytest.param(check_volume, volume(1, 4096), volume(1, 4100), SizeLimit.TOPOLOGY, id="a segment is a map"),
        pytest.param(check_volume, volume(256, 40), volume(257, 40), SizeLimit.TOPOLOGY, id="segments"),
        pytest.param(check_volume, volume(14, 4096), volume(15, 4096), SizeLimit.TOPOLOGY, id="segments in sum"),
        pytest.param(check_health, health(256), health(257), SizeLimit.HEALTH_ENTRIES, id="health entries"),
        pytest.param(check_count, [0] * 1000, [0] * 1001, SizeLimit.CAPABILITIES, id="capabilities"),
    ],
)
def test_a_limit(check: Callable[[Any], None], within: Any, beyond: Any, limit: SizeLimit) -> None:
    check(within)
    with pytest.raises(TooLarge, match="allowed") as failed:
        check(beyond)
    assert failed.value.limit is limit


def test_what_is_never_read_is_limited_by_the_size_of_the_answer_only() -> None:
    context = {f"key-{number}": VALUE for number in range(200)}
    check_volume(csi.Volume(volume_id="v" * 5000, volume_context=context))
