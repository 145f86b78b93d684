"""`pvc-prebinder replace`: gives a pod another volume for one that is lost."""

import asyncio
from datetime import timedelta
from typing import Final

import cloup

from binder.replacement.decision import Decision, Finished, NotReplaced, Plan, Waiting, decide
from binder.replacement.request import ReplaceRequest
from kube.client.api import KubeApi
from kube.clock import SystemClock
from kube.plain_text import shell
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, connection
from prebinder.command_line.command import Command
from prebinder.command_line.parameters import TIMEOUT
from prebinder.config.settings import LoggingSettings, LogLevel
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.replace.carrying_out import Forbids, Replacer
from prebinder.replace.deletion import ClaimDeletion
from prebinder.replace.reading import SituationReader
from prebinder.replace.texts import Lines, not_replaced_lines, plan_lines, step_text, waiting_lines
from prebinder.runtime.logs import configure
from why.rendering.lines import write_line

EXAMPLES: Final = """
Examples:
  pvc-prebinder replace pod/db-3 -n shop
      print the plan: proofs, volumes, each write and deletion; nothing is written
  pvc-prebinder replace pod/db-3 -n shop --yes
  pvc-prebinder replace pod/db-3 -n shop --give-back --abandon --yes
      return to the volume that was replaced

Exit codes:
  0 success, or a plan was printed   1 error   2 usage   3 not replaced, or not finished, as reported
"""

_KINDS: Final = ("pod", "pods", "po")


@cloup.command("replace", cls=Command, examples=EXAMPLES)
@cloup.argument("pod", metavar="pod/NAME")
@cloup.option("-n", "--namespace", default="", metavar="NAME", help="of the pod, default that of the context")
@cloup.option("--yes", "is_confirmed", is_flag=True, help="carry the plan out; without it nothing is written")
@cloup.option("--abandon", is_flag=True, help="give up volumes that are out of reach, but not proven to be lost")
@cloup.option("--give-back", is_flag=True, help="return to the volume that an earlier replacement kept")
@cloup.option(
    "--timeout",
    type=TIMEOUT,
    default=timedelta(minutes=5),
    metavar="DURATION",
    help="wait up to this long for others after each step, such as 10m; default 5m",
)
@access_flags
def command(  # noqa: PLR0913 - one for each flag
    access: ClusterAccess,
    *,
    pod: str,
    namespace: str,
    is_confirmed: bool,
    abandon: bool,
    give_back: bool,
    timeout: timedelta,
) -> int:
    """Gives a pod of a StatefulSet, or of another owner that creates it again, another volume for one that is lost.

    Needs two proofs. Fenced: the pod's node does not exist any more, has the out-of-service taint, or the pod has ended
    or has no node. Lost: the only node that reaches the volume does not exist any more, or its driver reports DataLoss,
    or that the volume does not exist, in two complete sweeps, and of no more than 30 % of its volumes. A node that is
    not ready proves nothing.

    Reserves a healthy volume for the claim's name, deletes the claim, and evicts the pod through the Eviction API; what
    owns them creates both again. The old volume is kept. One replica of a StatefulSet at a time. Run it again after an
    interruption: it goes on. Needs no controller, and has your rights only.
    """
    configure(LoggingSettings(level=LogLevel.WARNING))
    kind, slash, name = pod.partition("/")
    if not slash or kind not in _KINDS or not name:
        raise UsageError(f'expected pod/NAME, found "{pod}"')
    request = ReplaceRequest(abandon=abandon, give_back=give_back)
    return asyncio.run(_replace(access, (namespace, name), request, timeout.total_seconds() if is_confirmed else None))


async def _replace(access: ClusterAccess, pod: tuple[str, str], request: ReplaceRequest, patience: float | None) -> int:
    """Carry the replacement out, or print the plan if there is no `patience`."""
    async with connection(access) as transport:
        api, clock, (namespace, name) = KubeApi(transport), SystemClock(), pod
        namespace = namespace or transport.namespace
        reader = SituationReader(api, access.annotations, clock, namespace, name)
        again = _command(namespace, name, request)
        if patience is None:
            return await _print_plan(reader, request, again)
        replacer = Replacer(api, ClaimDeletion(transport), reader.read, clock, Lines(), patience)
        try:
            decision = await replacer.run(request)
        except Forbids as forbidden:
            message = f"a disruption budget does not allow the eviction now, so nothing was deleted: {forbidden}"
            raise CommandError(f"{message}. Later: {again}") from forbidden
    return _report(decision, namespace, again)


async def _print_plan(reader: SituationReader, request: ReplaceRequest, again: str) -> int:
    situation = await reader.read()
    decision = decide(situation, request)
    if not isinstance(decision, Plan):
        return _report(decision, situation.namespace, again)
    for line in plan_lines(situation, decision, again):
        write_line(line)
    return ExitCode.FINE


def _report(decision: Decision, namespace: str, again: str) -> int:
    match decision:
        case Finished():
            write_line(f"Finished: {decision.what}.")
            return ExitCode.FINE
        case NotReplaced():
            lines = not_replaced_lines(decision)
        case Waiting():
            lines = waiting_lines(namespace, decision, again)
        case Plan():
            why = decision.ended.why if decision.ended is not None else step_text(decision.steps[-1])
            lines = iter([f"Taken back, and nothing was deleted: {why}."])
    for line in lines:
        write_line(line)
    return ExitCode.PROBLEM_FOUND


def _command(namespace: str, name: str, request: ReplaceRequest) -> str:
    flags = [flag for flag, given in (("--give-back", request.give_back), ("--abandon", request.abandon)) if given]
    return " ".join([shell("pvc-prebinder replace pod/{} -n {}", name, namespace), *flags, "--yes"])
