"""Whether a process of ours holds a Lease: then what is removed now would be written again.

As in kube.leaderelection, clocks of different machines are never compared: a Lease is held if its holder renews it
while this process looks, and abandoned if it does not for longer than the Lease lasts.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from kube.client.api import KubeApi
from kube.clock import Clock
from kube.errors import NotFound
from kube.leaderelection.lease import MAX_DURATION_SECONDS, LeaseRecord, LeaseTiming, parse_lease
from kube.objects.api_resource import LEASES

_TIMING: Final = LeaseTiming()

Progress = Callable[[str], None]


async def holders(api: KubeApi, namespace: str, names: Iterable[str], clock: Clock, progress: Progress) -> list[str]:
    """Return a sentence for each of these Leases that is held. Raises KubeError, NotFound aside.

    Takes as long as a Lease lasts if one has a holder that does not renew it, and reports that; at most
    MAX_DURATION_SECONDS.
    """
    every = await asyncio.gather(*(_holder(api, namespace, name, clock, progress) for name in names))
    return [sentence for sentence in every if sentence]


async def _holder(api: KubeApi, namespace: str, name: str, clock: Clock, progress: Progress) -> str:
    first = await _read(api, namespace, name)
    if first is None:
        return ""
    lease, seen = f"{namespace}/{name}", clock.monotonic()
    if first.duration > MAX_DURATION_SECONDS:
        return (
            f"{first.holder} holds the Lease {lease} for {first.duration:.0f} s, longer than any process of "
            f"pvc-prebinder does. If none runs, delete it: kubectl -n {namespace} delete lease {name}"
        )
    progress(f"waiting {first.duration:.0f} s to see whether {first.holder} still renews the Lease {lease}")
    while True:
        await clock.sleep(_TIMING.retry)
        waited = clock.monotonic() - seen
        record = await _read(api, namespace, name)
        if record is None:
            return ""
        if _renewed(first, record):
            return (
                f"{record.holder} holds the Lease {lease} and renews it. Scale its Deployment to 0: "
                f"kubectl -n {namespace} scale deployment --all --replicas=0"
            )
        if waited > first.duration:
            return ""


async def _read(api: KubeApi, namespace: str, name: str) -> LeaseRecord | None:
    """Return the Lease if it has a holder."""
    try:
        record = parse_lease(await api.get(LEASES, name, namespace), _TIMING)
    except NotFound:
        return None
    return record if record.holder else None


def _renewed(first: LeaseRecord, record: LeaseRecord) -> bool:
    """Whether a holder wrote in between; a label that a user adds changes the resourceVersion alone."""
    return (record.holder, record.renewed, record.transitions) != (first.holder, first.renewed, first.transitions)
