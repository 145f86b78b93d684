"""Carries out a replacement step by step: everything is read and decided again before each of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from binder.replacement.decision import Decision, Finished, NotReplaced, Plan, decide, is_dry
from binder.replacement.request import ReplaceRequest
from binder.replacement.situation import Situation
from binder.replacement.steps import DeleteClaim, EvictPod, Step, Write
from binder.writers.object_client import FASTER, patch_as_seen
from kube.client.api import KubeApi
from kube.clock import Clock
from kube.errors import Throttled
from kube.objects.api_resource import PODS
from kube.objects.model import Claim, Pod

POLL_SECONDS: Final = 1.0
"""Seconds between two looks at what others have to do."""

_MAX_CONFLICTS: Final = 20
"""Times in a row that others were faster before the command gives up."""


class Deletes(Protocol):
    """Deletes a claim that is unchanged."""

    async def delete(self, claim: Claim) -> None: ...


class StepReport(Protocol):
    """Tells the user what was done and what is waited for."""

    def done(self, step: Step) -> None:
        """The step was taken."""

    def waiting(self, what: str) -> None:
        """Others have to do this first. Called when that changes."""


class Forbids(Exception):
    """A disruption budget does not allow the eviction now."""


class _EvictionStatus(msgspec.Struct):
    status: str = ""
    message: str = ""


@dataclass(slots=True)
class Replacer:
    """Takes the steps of a replacement until it is finished, rejected, or has waited for `patience` seconds."""

    api: KubeApi
    deletion: Deletes
    read: Callable[[], Awaitable[Situation]]
    clock: Clock
    progress: StepReport
    patience: float
    _conflicts: int = field(default=0, init=False)

    async def run(self, request: ReplaceRequest) -> Decision:
        """Return how it ended: Finished; a Plan that was taken back, with why; NotReplaced; or Waiting.

        Raises KubeError, and Forbids if a budget does not allow the eviction before anything was deleted.
        """
        waited_for, since = "", self.clock.monotonic()
        while True:
            decision = decide(await self.read(), request)
            if isinstance(decision, NotReplaced | Finished):
                return decision
            if isinstance(decision, Plan):
                ended = await self._take(decision)
                if ended:
                    return Finished(decision.result) if decision.result else decision
                since = self.clock.monotonic()
                continue
            if decision.what != waited_for:
                waited_for = decision.what
                self.progress.waiting(waited_for)
            if decision.lower or self.clock.monotonic() - since >= self.patience:
                return decision
            await self.clock.sleep(POLL_SECONDS)

    async def _take(self, plan: Plan) -> bool:
        """Take the first step, after a dry run the next one too; return whether this was the end of it."""
        taken = 0
        try:
            for step in plan.steps:
                await self._step(step)
                taken += 1
                if not is_dry(step):
                    break
        except FASTER:
            self._conflicts += 1
            if self._conflicts > _MAX_CONFLICTS:
                raise
            await self.clock.sleep(0.05 * self._conflicts)
            return False
        except Throttled as error:
            if is_dry(plan.steps[taken]):
                raise Forbids(error.message) from error
            self.progress.waiting(f"the eviction is not allowed now: {error.message}")
            await self.clock.sleep(POLL_SECONDS)
            return False
        self._conflicts = 0
        return taken == len(plan.steps) and (plan.ended is not None or bool(plan.result))

    async def _step(self, step: Step) -> None:
        match step:
            case Write():
                await patch_as_seen(
                    self.api,
                    step.resource,
                    step.name,
                    step.body,
                    resource_version=step.version,
                    namespace=step.namespace,
                    uid=step.uid,
                )
            case DeleteClaim():
                await self.deletion.delete(step.claim)
            case EvictPod():
                await self._evict(step)
        self.progress.done(step)

    async def _evict(self, step: EvictPod) -> None:
        pod = step.pod
        body = eviction(pod, dry_run=step.dry_run)
        raw = await self.api.create(PODS, body, pod.namespace, name=pod.name, subresource="eviction")
        answer = msgspec.json.decode(raw, type=_EvictionStatus)
        if answer.status == "Failure":
            raise Throttled("POST", pod.key, 429, "TooManyRequests", answer.message)


def eviction(pod: Pod, *, dry_run: bool) -> dict[str, Any]:
    """Return the Eviction of exactly this pod, as it was read."""
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": options | ({"dryRun": ["All"]} if dry_run else {}),
    }
