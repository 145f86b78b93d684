"""The API server's audit log, at level Metadata: which component sent which request, and the response.

Counts show causes that times hide, and are the same on a busy machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

READING: Final = frozenset({"get", "list", "watch"})
CONFLICT: Final = 409
EVERYBODY: Final[Mapping[str, Any]] = {"level": "Metadata"}
"""A rule of an audit policy."""

OURS: Final = "ours"
_AGENTS: Final[Mapping[str, str]] = {
    "pvc-prebinder": OURS,
    "kube-controller-manager": "controller manager",
    "kube-scheduler": "kube-scheduler",
}
"""User agent, up to its version -> our name for it."""

_ACCOUNTS: Final = "system:serviceaccount:"
_LEASES: Final = "leases"


class _Subject(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _User(msgspec.Struct):
    name: str = msgspec.field(name="username", default="")


class _Answer(msgspec.Struct):
    code: int = 0


class Request(msgspec.Struct):
    """An entry of the API server's log."""

    audit_id: str = msgspec.field(name="auditID")
    verb: str
    request: _Subject = msgspec.field(name="objectRef", default_factory=_Subject)
    answer: _Answer = msgspec.field(name="responseStatus", default_factory=_Answer)
    user: _User = msgspec.field(default_factory=_User)
    user_agent: str = msgspec.field(name="userAgent", default="")

    @property
    def agent(self) -> str:
        """The component that sent the request, by our name; empty for the measurement itself, which uses our client."""
        agent = _AGENTS.get(self.user_agent.partition("/")[0], "")
        return "" if agent == OURS and not self.user.name.startswith(_ACCOUNTS) else agent

    @property
    def subject(self) -> str:
        """The resource, with the subresource if it has one."""
        return "/".join(filter(None, (self.request.resource, self.request.subresource)))


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that count as equal."""

    agent: str
    verb: str
    subject: str
    code: int

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}{f' ({self.code})' if self.code >= 400 else ''}"


def write_policy(audit: Path, *rules: Mapping[str, Any]) -> Path:
    """Write the policy for an audit log beside it: completed requests, by the first matching rule, else none."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [*rules, {"level": "None"}],
    }
    path = audit.with_name("audit-policy.yaml")
    path.write_text(yaml.safe_dump(policy), encoding="utf-8")
    return path


def entries(audit: Path) -> list[Request]:
    """Return the requests in the log, each once."""
    lines = [line for line in audit.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    decoder = msgspec.json.Decoder(Request)
    return list({entry.audit_id: entry for entry in map(decoder.decode, lines)}.values())


def counts(requests: Iterable[Request]) -> Counter[RequestKind]:
    """Count the components' requests for single objects, except Leases. Lists and watches do not grow with objects."""
    return Counter(
        RequestKind(request.agent, request.verb, request.subject, request.answer.code)
        for request in requests
        if request.agent and request.request.resource != _LEASES and request.verb not in {"list", "watch"}
    )


def conflicts(counted: Mapping[RequestKind, int]) -> int:
    """Return how many requests were answered 409."""
    return sum(count for request, count in counted.items() if request.code == CONFLICT)


def by(agent: str, counted: Mapping[RequestKind, int], *, writes: bool = False) -> dict[RequestKind, int]:
    """Return the requests of one component, or only its writes, most frequent first."""
    chosen = [(request, count) for request, count in counted.items() if request.agent == agent]
    ordered: Sequence[tuple[RequestKind, int]] = sorted(chosen, key=lambda pair: (-pair[1], str(pair[0])))
    return {request: count for request, count in ordered if not (writes and request.verb in READING)}
