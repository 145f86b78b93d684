"""Whether a process of ours holds a Lease: then what is removed now would be written again."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from binder.reservation.contract import parse_time
from kube.client.api import KubeApi
from kube.errors import NotFound
from kube.leaderelection.lease import LeaseRecord, LeaseTiming, parse_lease
from kube.objects.api_resource import LEASES


async def holders(api: KubeApi, namespace: str, names: Iterable[str], now: datetime) -> list[str]:
    """Return a sentence for each of these Leases that is held. Raises KubeError, NotFound aside."""
    sentences = []
    for name in names:
        try:
            record = parse_lease(await api.get(LEASES, name, namespace), LeaseTiming())
        except NotFound:
            continue
        if (seconds := seconds_held(record, now)) > 0:
            sentences.append(
                f"{record.holder} holds the Lease {namespace}/{name}. Scale its Deployment to 0; "
                f"the Lease of a dead process expires in {seconds:.0f} s"
            )
    return sentences


def seconds_held(record: LeaseRecord, now: datetime) -> float:
    """Return for how long the Lease is held if it is not renewed, by this machine's clock; 0 if it is free."""
    renewed = parse_time(record.renewed)
    if not record.holder or renewed is None:
        return 0.0
    return max(0.0, (renewed + timedelta(seconds=record.duration) - now).total_seconds())
