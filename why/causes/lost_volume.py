"""How a volume is given up whose data cannot be reached any more, and what that loses. The one place that says so.

Nothing here is a command of its own: only a person can know that a node or its disk never comes back.
"""

from kube.objects.model import Claim, Volume
from kube.plain_text import shell
from kube.rules.quantity import format_quantity


def giving_up(claim: Claim, volume: Volume) -> str:
    """Return how the pods of a claim get another volume than this one, and what is lost: everything on it.

    The claim first: with the pod first, a StatefulSet makes a new pod on the old claim (stateful_pod_control.go).
    """
    delete = shell("kubectl -n {} delete pvc {} --wait=false", claim.namespace, claim.name)
    size = format_quantity(volume.capacity, binary=True)
    kept = "" if volume.reclaim_policy == "Delete" else f", and {volume.name} stays Released until you delete it"
    return (
        "check first whether the node or its disk comes back. Only if neither ever does, give the volume up: "
        f"`{delete}`, then delete its pods; a StatefulSet creates both again, others you create again, on another and "
        f"empty volume. What is on {volume.name} ({size}) and nowhere else is lost{kept}"
    )
