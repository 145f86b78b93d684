"""`pvc-prebinder uninstall`: removes everything that pvc-prebinder wrote to pods, claims and volumes."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import cloup

from kube.client.api import KubeApi
from kube.clock import SystemClock
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_api
from prebinder.command_line.command import Command
from prebinder.command_line.parameters import OneOf
from prebinder.config.settings import LeaderElectionSettings, LoggingSettings, LogLevel
from prebinder.errors import CommandError, ExitCode
from prebinder.preflight.requirements import SCHEDULER
from prebinder.runtime.logs import configure
from prebinder.uninstall.lease_in_use import holders
from prebinder.uninstall.remover import Remover
from prebinder.uninstall.running_pods import running
from prebinder.uninstall.traces import Part
from why.rendering.lines import warn, write_line

EXAMPLES: Final = """
Examples:
  pvc-prebinder uninstall --dry-run
  pvc-prebinder uninstall --only gates
      release gated pods when no controller runs any more

Order of a complete removal (docs/operate.md):
  1. delete the policy that gates new pods, or take the gate out of the pod templates
  2. remove the agents beside CSI drivers
  3. scale the Deployments of the controller and the scheduler to 0
  4. pvc-prebinder uninstall
  5. kubectl delete -k (or helm uninstall) what was installed

Exit codes:
  0 nothing of ours is left   1 error   2 usage   3 something is left, as reported
"""


class _Lines:
    """One line for each object."""

    def __init__(self, *, dry_run: bool) -> None:
        self._would = "would be: " if dry_run else ""
        self.objects = 0

    def removed(self, what: str, name: str) -> None:
        self.objects += 1
        write_line(f"{name}: {self._would}{what}")

    def left(self, name: str, why: str) -> None:
        warn(f"{name}: {why}")


@cloup.command("uninstall", cls=Command, examples=EXAMPLES)
@cloup.option("--dry-run", is_flag=True, help="report what would be removed, and write nothing")
@cloup.option(
    "--only",
    "parts",
    type=OneOf(Part),
    multiple=True,
    metavar="PART",
    help="gates, reservations, quarantine or health; repeatable; default all",
)
@cloup.option("--lease-namespace", default="pvc-prebinder-system", metavar="NAME", help="default pvc-prebinder-system")
@cloup.option(
    "--lease-name",
    default=LeaderElectionSettings().name,
    metavar="NAME",
    help=f"of the controller, default {LeaderElectionSettings().name}",
)
@access_flags
def command(
    access: ClusterAccess, *, dry_run: bool, parts: tuple[Part, ...], lease_namespace: str, lease_name: str
) -> int:
    """Removes everything that pvc-prebinder wrote to the objects of the cluster.

    Removes its scheduling gate from pods, clears claimRefs that it wrote and that are not part of a completed bind,
    those of held volumes included, releases volumes from quarantine, and removes its annotations from claims and
    volumes. Bound claims stay bound, claimRefs of other writers stay, and nothing is deleted. Replaced volumes also
    stay as they are, and are listed. The annotation `mode` of StorageClasses is yours and stays.

    Stops while a controller, scheduler or agent runs in a pod, or a controller or scheduler renews its Lease, because
    it would write everything again. If a Lease still has a holder, it waits as long as the Lease lasts. A process that
    runs outside the cluster with --leader-elect=false cannot be seen. Requires the rights of manifests/uninstall.
    """
    configure(LoggingSettings(level=LogLevel.WARNING))
    return asyncio.run(_uninstall(access, parts or tuple(Part), (lease_namespace, lease_name), dry_run=dry_run))


async def _uninstall(access: ClusterAccess, parts: tuple[Part, ...], lease: tuple[str, str], *, dry_run: bool) -> int:
    namespace, name = lease
    lines = _Lines(dry_run=dry_run)
    async with cluster_api(access, dry_run=dry_run) as api:
        still = await _still_running(api, parts, namespace, (name, SCHEDULER.lease))
        if still and not dry_run:
            raise CommandError("; ".join(still))
        for sentence in still:
            warn(sentence)
        remover = Remover(api, access.annotations, parts, lines)
        await remover.run()
    if not lines.objects and not remover.left:
        write_line(f"Nothing with the prefix {access.annotations.prefix} is left.")
    return ExitCode.PROBLEM_FOUND if remover.left else ExitCode.FINE


async def _still_running(api: KubeApi, parts: Collection[Part], namespace: str, leases: Sequence[str]) -> list[str]:
    """Return a sentence for each process of ours that would write again; Leases, which take time, without pods only."""
    pods = [str(writer) for writer in await running(api, parts)]
    return pods or await holders(api, namespace, leases, SystemClock(), warn)
