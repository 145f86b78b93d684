"""What the page shows, as frozen values: the JSON that the browser receives. docs/view.md describes it.

Rows are named by keys that stay the same while an object lives, so that a change is a few rows and not a whole view.
Amounts are in bytes; a text beside them is for people. Empty fields are left out of the JSON.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

API_VERSION: Final = "pvc-prebinder/v1alpha1"


class VolumeState(StrEnum):
    """What a volume is to claims: its phase, or what is closer to the truth than that."""

    AVAILABLE = "Available"
    RESERVED = "Reserved"
    BOUND = "Bound"
    RELEASED = "Released"
    FAILED = "Failed"
    PENDING = "Pending"
    QUARANTINED = "Quarantined"
    TERMINATING = "Terminating"


class VolumeRow(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A volume. `zone` is empty when it belongs to none, or to several; `nodes` are those it is attached to or used on.

    `health` is empty when nothing is reported; `claim` is the one that it is bound to or reserved for.
    """

    name: str
    zone: str
    state: VolumeState
    size: str = ""
    bytes: int = 0
    storage_class: str = ""
    nodes: tuple[str, ...] = ()
    claim: str = ""
    pods: tuple[str, ...] = ()
    health: str = ""
    unhealthy: bool = False
    reason: str = ""
    until: datetime | None = None
    driver: str = ""
    local: bool = False


class NodeRow(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A node. `state` is Ready, Cordoned, or the condition that keeps pods away; `limit` is 0 where none is stated.

    `attached` and `limit` are those of the driver that has the least room left, `driver`.
    """

    name: str
    zone: str
    state: str = "Ready"
    attached: int = 0
    limit: int = 0
    driver: str = ""
    pods: int = 0


class ClassRow(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Free capacity of a class in a zone: its Available volumes, and what the driver reports that it can still
    provision.
    """

    zone: str
    storage_class: str
    volumes: int = 0
    bytes: int = 0
    size: str = ""
    largest: str = ""
    driver_bytes: int | None = None
    driver_size: str = ""

    @property
    def key(self) -> str:
        return f"{self.zone}/{self.storage_class}"


class PendingRow(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A pod that waits, or a claim that is not bound. `zones` are those it could go to, a pod with all its claims at
    once; `code` and `message` are the reason why it waits.

    They are empty until the cause has been determined. `everywhere`: no zone is excluded. `node` is that of a pod that
    has one and does not start there.
    """

    key: str
    storage_class: str = ""
    size: str = ""
    zones: tuple[str, ...] = ()
    everywhere: bool = False
    code: str = ""
    problem: bool = False
    conclusive: bool = True
    message: str = ""
    pod: str = ""
    node: str = ""
    since: datetime | None = None


class PodRow(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A pod with claims."""

    key: str
    phase: str
    node: str = ""
    claims: tuple[str, ...] = ()


class UnreadKind(Struct, frozen=True, rename="camel"):
    """What was not read, and because of what."""

    resource: str
    because: str


class PageView(Struct, frozen=True, rename="camel", omit_defaults=False):
    """Everything, at one moment. `source` is where it was read; `live` is whether it changes by itself.

    `stale` is since when the API server has not responded.
    """

    source: str
    live: bool
    at: datetime
    volumes: dict[str, VolumeRow]
    nodes: dict[str, NodeRow]
    classes: dict[str, ClassRow]
    pending: dict[str, PendingRow]
    pods: dict[str, PodRow]
    unreadable: tuple[UnreadKind, ...] = ()
    stale: datetime | None = None
    api_version: str = field(default=API_VERSION)
    kind: str = field(default="View")
