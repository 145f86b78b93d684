"""In-tree volume plugins, and the CSI driver that replaced each.

Source: k8s.io/csi-translation-lib/plugins, which names the drivers and forms the handles of disks in a pod's own spec.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kube.objects.constraints import AWS, AZURE, CINDER, GCE, PORTWORX, InlineDisk


class _Plugin(NamedTuple):
    """The name as a class's provisioner, the field with a volume's source, and the driver.

    `counted`: whether its volumes count towards the driver's attach limits (isCSIMigrationOn in
    pkg/scheduler/framework/plugins/nodevolumelimits/utils.go).
    """

    provisioner: str
    source: str
    driver: str
    counted: bool = True


_PLUGINS: Final = (
    _Plugin("kubernetes.io/aws-ebs", AWS, "ebs.csi.aws.com"),
    _Plugin("kubernetes.io/azure-disk", AZURE, "disk.csi.azure.com"),
    _Plugin("kubernetes.io/azure-file", "azureFile", "file.csi.azure.com", counted=False),
    _Plugin("kubernetes.io/cinder", CINDER, "cinder.csi.openstack.org"),
    _Plugin("kubernetes.io/gce-pd", GCE, "pd.csi.storage.gke.io"),
    _Plugin("kubernetes.io/portworx-volume", PORTWORX, "pxd.portworx.com"),
    _Plugin("kubernetes.io/vsphere-volume", "vsphereVolume", "csi.vsphere.vmware.com", counted=False),
)
_BY_PROVISIONER: Final[Mapping[str, str]] = {plugin.provisioner: plugin.driver for plugin in _PLUGINS}
_COUNTED: Final[Mapping[str, str]] = {plugin.provisioner: plugin.driver for plugin in _PLUGINS if plugin.counted}
_COUNTED_BY_SOURCE: Final[Mapping[str, str]] = {plugin.source: plugin.driver for plugin in _PLUGINS if plugin.counted}


def driver_of_provisioner(provisioner: str) -> str:
    """Return the driver that provisions for a class: the provisioner itself unless it is an in-tree plugin."""
    return _BY_PROVISIONER.get(provisioner, provisioner)


def counted_driver_of_provisioner(provisioner: str) -> str:
    """Return the driver whose attach limits count volumes of a class; empty for uncounted in-tree plugins."""
    return _COUNTED.get(provisioner, "" if provisioner in _BY_PROVISIONER else provisioner)


def driver_of_source(source: str) -> str:
    """Return the driver that attaches volumes with this field as their source; empty for those that are not counted."""
    return _COUNTED_BY_SOURCE.get(source, "")


_EBS_URL: Final = re.compile(r"aws://.*(?P<volume>vol-[^/]*)")
"""`aws://zone/vol-1`, as the in-tree plugin accepts it (KubernetesVolumeIDToEBSVolumeID)."""


def inline_volume(disk: InlineDisk) -> tuple[str, str] | None:
    """Return driver and handle of a disk that a pod names in its own spec; None if no attach limit counts it."""
    driver = driver_of_source(disk.kind)
    if not driver:
        return None
    (name, *_) = disk.identity
    if disk.kind == AWS:
        volume = _EBS_URL.fullmatch(name)
        return driver, volume["volume"] if volume is not None else name
    return driver, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}" if disk.kind == GCE else name
