"""Whether a node that was selected a moment ago has room still, beside all others for which it is being selected."""

import pytest

from binder.matching.index import VolumeIndex
from binder.model.decision import Provision
from binder.model.ledger import Ledger, Selection
from binder.model.view import View
from binder.node_selection.selection import still_fits
from kube.objects.model import Claim
from tests.binder.provisioning.clusters import Cluster, report
from tests.builders import claim, pod


def selection(chosen: Claim, node: str = "n1") -> Selection:
    return Selection(chosen.key, chosen.uid, f"default/pod-of-{chosen.name}", node)


@pytest.mark.parametrize(
    ("size", "node", "fits"),
    [
        pytest.param("40Gi", "n1", True, id="beside"),
        pytest.param("41Gi", "n1", False, id="no-room-for-both"),
        pytest.param("41Gi", "n2", True, id="another-node"),
    ],
)
def test_what_is_being_selected_there_for_other_pods_takes_room_before_any_claim_shows_it(
    size: str, node: str, fits: bool
) -> None:
    own, other = claim("own", size="60Gi"), claim("other", size=size)
    cluster = Cluster(report("100Gi"), report("100Gi", "n2"), own, other)
    ledger = Ledger().with_selections([selection(own), selection(other, node)])
    seen = View(cluster.store.snapshot(), VolumeIndex(), ledger=ledger, pools=cluster.ledger())
    assert still_fits(seen, Provision(pod("web", claims=["own"]), "n1", (own,)), cluster.now) is fits
