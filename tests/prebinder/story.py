"""A namespace, a class and volumes of one zone on a real control plane, and pods that use them."""

from collections.abc import Mapping
from typing import Any, Final

from devcluster.cluster import DevCluster

PREFIX: Final = "process.cloud.example/"
"""Not the default: another module's controller may manage that prefix on the same cluster."""


class Story:
    """`name` is the name of the namespace and of the class, and begins the names of the volumes."""

    def __init__(self, cluster: DevCluster, name: str, driver_name: str) -> None:
        self.cluster, self.name, self.driver_name = cluster, name, driver_name

    async def set_up(self, handles: Mapping[str, str]) -> None:
        """Create namespace, class and volumes (name -> handle), all of 1Gi in zone-b."""
        await self.cluster.create_namespace(self.name)
        async with self.cluster.api() as api:
            storage_class = {"metadata": {"name": self.name}, "provisioner": "kubernetes.io/no-provisioner"}
            await api.create(
                "/apis/storage.k8s.io/v1/storageclasses", storage_class | {"volumeBindingMode": "WaitForFirstConsumer"}
            )
            for name, handle in handles.items():
                await api.create("/api/v1/persistentvolumes", self._volume(name, handle))

    def _volume(self, name: str, handle: str) -> dict[str, Any]:
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}
        return {
            "metadata": {"name": f"{self.name}-{name}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": self.driver_name, "volumeHandle": handle},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            },
        }

    async def create_pod(self, *claims: str) -> None:
        """Create a pod with our scheduling gate, with claims of 1Gi."""
        wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": self.name}
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        async with self.cluster.api() as api:
            for name in claims:
                claim = {"metadata": {"name": name}, "spec": wanted | {"resources": {"requests": {"storage": "1Gi"}}}}
                await api.create(f"/api/v1/namespaces/{self.name}/persistentvolumeclaims", claim)
            containers = [{"name": "c", "image": "none"}]
            gate = {"name": f"{PREFIX}volumes"}
            spec = {"containers": containers, "volumes": volumes, "schedulingGates": [gate]}
            await api.create(f"/api/v1/namespaces/{self.name}/pods", {"metadata": {"name": "pod"}, "spec": spec})

    async def get(self, path: str) -> dict[str, Any]:
        async with self.cluster.api() as api:
            return await api.get(path)

    async def claim(self, name: str) -> dict[str, Any]:
        return await self.get(f"/api/v1/namespaces/{self.name}/persistentvolumeclaims/{name}")

    async def volume(self, name: str) -> dict[str, Any]:
        return await self.get(f"/api/v1/persistentvolumes/{self.name}-{name}")

    async def running(self) -> bool:
        pod = await self.get(f"/api/v1/namespaces/{self.name}/pods/pod")
        return bool(pod["status"]["phase"] == "Running")
