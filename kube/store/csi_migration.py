"""In-tree volumes that Kubernetes hands to a CSI driver, as far as they count towards the driver's attach limits.

Source: isCSIMigrationOn in pkg/scheduler/framework/plugins/nodevolumelimits/utils.go, which lists the plugins, and
k8s.io/csi-translation-lib/plugins, which names their drivers. Volumes of other migrated plugins are not counted there.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class _Plugin(NamedTuple):
    """The name as a class's provisioner, the field with a volume's source, and the driver."""

    provisioner: str
    source: str
    driver: str


_PLUGINS: Final = (
    _Plugin("kubernetes.io/aws-ebs", "awsElasticBlockStore", "ebs.csi.aws.com"),
    _Plugin("kubernetes.io/azure-disk", "azureDisk", "disk.csi.azure.com"),
    _Plugin("kubernetes.io/cinder", "cinder", "cinder.csi.openstack.org"),
    _Plugin("kubernetes.io/gce-pd", "gcePersistentDisk", "pd.csi.storage.gke.io"),
    _Plugin("kubernetes.io/portworx-volume", "portworxVolume", "pxd.portworx.com"),
)
_BY_PROVISIONER: Final[Mapping[str, str]] = {plugin.provisioner: plugin.driver for plugin in _PLUGINS}
_BY_SOURCE: Final[Mapping[str, str]] = {plugin.source: plugin.driver for plugin in _PLUGINS}


def driver_of_provisioner(provisioner: str) -> str:
    """Return the driver that provisions for a class: the provisioner itself unless it is an in-tree plugin."""
    return _BY_PROVISIONER.get(provisioner, provisioner)


def driver_of_source(source: str) -> str:
    """Return the driver that attaches volumes with this field as their source; empty for those that are not counted."""
    return _BY_SOURCE.get(source, "")
