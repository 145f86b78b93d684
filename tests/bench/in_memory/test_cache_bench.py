"""Each measurement runs at a tiny scale and yields what it says; no figure is compared here."""

from bench.in_memory.cache_bench import run


def test_a_large_cluster_is_read() -> None:
    rows = {row.name: row.value for row in run(quick=True)}
    assert 0 < rows["memory held"] <= rows["memory at the peak"]
    assert all(value > 0 for value in rows.values())
