"""The result of `why`: an item for each requested object. docs/why.md describes the JSON."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from binder.matching.rejection import Reason

API_VERSION: Final = "pvc-prebinder/v1alpha1"
ABSENT: Final = "Absent"
"""Status of a claim that was to be created, and was not."""


class Link(Struct, frozen=True, rename="camel"):
    """An object on the way from the requested one to the cause, and its relevant state."""

    kind: str
    name: str
    says: str


class Evidence(Struct, frozen=True, rename="camel"):
    """What was read, and where. `wanted` is empty if nothing in particular was expected."""

    object: str
    wanted: str
    found: str


class Skipped(Struct, frozen=True, rename="camel"):
    """What was not read, and the reason."""

    resource: str
    because: str


class Item(Struct, frozen=True, rename="camel", omit_defaults=False):
    """The result for one object.

    `code` is the root cause; `problem` is false for a normal state, including waiting. `causes` lead from the object to
    the root cause, `next` are commands that can be run as they are, `advice` describes the effect or cost of each of
    them. `claims` are the claims that this cause keeps from being bound. `status` is the object's phase and `since`
    when it was created. `sources` are what was read for the result, and `skipped` what could not be. `conclusive` is
    false if no result is possible without the latter.
    """

    kind: str
    namespace: str
    name: str
    code: Reason
    problem: bool
    message: str
    status: str = ""
    since: datetime | None = None
    causes: tuple[Link, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def conclusive(self) -> bool:
        return self.code is not Reason.INCONCLUSIVE


class WhyReport(Struct, frozen=True, rename="camel"):
    """The results. `skipped` is what could not be read and lists what is pending: more may be than has an item."""

    api_version: str = API_VERSION
    kind: str = "WhyReport"
    items: tuple[Item, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.skipped
