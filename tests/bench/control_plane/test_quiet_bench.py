"""Each measurement runs at a tiny scale and yields what it says; no figure is compared here."""

import pytest

from bench.control_plane.quiet_bench import count_requests


@pytest.mark.cluster
async def test_requests_are_counted_on_a_control_plane() -> None:
    rows = {row.name: row.value for row in await count_requests(pairs=2, settling=0.0, seconds=5.0)}
    assert rows["renewals of the Lease"] > 0
