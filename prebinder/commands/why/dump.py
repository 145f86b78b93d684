"""`pvc-prebinder why dump`: writes what `why -f` reads."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Final

import cloup

from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_connection
from prebinder.command_line.cluster_names import name_type, namespaces
from prebinder.command_line.command import Command
from prebinder.errors import ExitCode, UsageError
from why.facts.facts import Source
from why.reading.dump_writer import DumpWriter
from why.reading.withheld import Withholding
from why.rendering.lines import warn

EXAMPLES: Final = """
Examples:
  pvc-prebinder why dump -A > dump.json
  pvc-prebinder why dump -n shop --redact > dump.json     to hand on: names no other namespace, no environment
  pvc-prebinder why -f dump.json

Exit codes:
  0 success   1 error   2 usage
  4 neither pods nor claims could be listed
"""


@cloup.command("why dump", cls=Command, examples=EXAMPLES)
@cloup.option(
    "-n", "--namespace", type=name_type(namespaces), metavar="NAME", help="default that of the kubeconfig's context"
)
@cloup.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="objects of all namespaces")
@cloup.option(
    "--redact",
    is_flag=True,
    help="leave out annotations that do not belong to Kubernetes, the environment and arguments of containers, and "
    "volumeAttributes",
)
@access_flags
def command(access: ClusterAccess, namespace: str | None, everywhere: bool, redact: bool) -> int:
    """Writes the objects that `why` reads to the standard output, as one JSON document for `why -f`.

    Reads with your own permissions; what you may not list is named, and recorded in the dump. Secrets and ConfigMaps
    are never read. Without --all-namespaces no other namespace is named, except those that every cluster has: of
    volumes that claims elsewhere have, only size, class and place are written.
    """
    if everywhere and namespace is not None:
        raise UsageError("--all-namespaces and --namespace exclude each other: leave one out")
    if sys.stdout.isatty():
        raise UsageError("the dump is long: add `> dump.json`")
    return asyncio.run(_write(access, namespace, everywhere=everywhere, redacting=redact))


async def _write(access: ClusterAccess, namespace: str | None, *, everywhere: bool, redacting: bool) -> int:
    async with cluster_connection(access) as (api, own_namespace):
        chosen = "" if everywhere else namespace or own_namespace
        withholding = Withholding(chosen, redacting, access.annotation_prefix)
        writer = DumpWriter(api, chosen, withholding, sys.stdout.buffer)
        skipped = await writer.write(datetime.now(UTC), lambda line: warn(line, "pvc-prebinder why dump"))
    sys.stdout.buffer.flush()
    return ExitCode.INCONCLUSIVE if {Source.PODS, Source.CLAIMS} <= skipped.keys() else ExitCode.FINE
