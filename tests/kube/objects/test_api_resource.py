"""Where the API serves objects and collections."""

import pytest

from kube.objects.api_resource import CLAIMS, CSI_NODES, LEASES, VOLUMES, Resource

OF_ONE = CLAIMS.within("shop")


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(VOLUMES, (), "/api/v1/persistentvolumes", id="all of a kind"),
        pytest.param(VOLUMES, ("", "pv-1"), "/api/v1/persistentvolumes/pv-1", id="one"),
        pytest.param(VOLUMES, ("", "pv-1", "status"), "/api/v1/persistentvolumes/pv-1/status", id="its status"),
        pytest.param(VOLUMES, ("shop", "pv-1"), "/api/v1/persistentvolumes/pv-1", id="of no namespace"),
        pytest.param(CSI_NODES, (), "/apis/storage.k8s.io/v1/csinodes", id="of a group"),
        pytest.param(CLAIMS, (), "/api/v1/persistentvolumeclaims", id="in all namespaces"),
        pytest.param(LEASES, ("a/b", "c d"), "/apis/coordination.k8s.io/v1/namespaces/a%2Fb/leases/c%20d", id="quoted"),
        pytest.param(OF_ONE, (), "/api/v1/namespaces/shop/persistentvolumeclaims", id="in one namespace"),
        pytest.param(OF_ONE, ("x", "d"), "/api/v1/namespaces/x/persistentvolumeclaims/d", id="an object elsewhere"),
    ],
)
def test_a_path_names_the_object_or_the_collection(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path
