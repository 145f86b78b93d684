from bench.in_memory.large_cluster import LargeCluster
from kube.decoding.decode import decode_volume


def test_volumes_of_the_large_cluster_are_what_an_api_server_sends() -> None:
    cluster = LargeCluster(pairs=5, nodes=1)
    volumes = [decode_volume(raw) for raw in cluster.lists["persistentvolumes"]]
    assert [volume.phase for volume in volumes] == ["Bound"] * 3 + ["Available"] * 2
    assert all(volume.node_affinity and volume.handle and volume.storage_class for volume in volumes)
