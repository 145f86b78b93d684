"""The answer of `why`: one item for each object that was asked about. docs/why.md describes the JSON."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from binder.matching.rejection import Reason

API_VERSION: Final = "pvc-prebinder/v1alpha1"


class Link(Struct, frozen=True, rename="camel"):
    """One object on the way from what was asked about to the cause, and what it says of itself."""

    kind: str
    name: str
    says: str


class Evidence(Struct, frozen=True, rename="camel"):
    """What was read where. `wanted` is empty where nothing in particular was."""

    object: str
    wanted: str
    found: str


class Skipped(Struct, frozen=True, rename="camel"):
    """What was not looked at, and because of what."""

    resource: str
    because: str


class Item(Struct, frozen=True, rename="camel", omit_defaults=False):
    """The answer about one object.

    `code` is the root cause; `problem` is false where everything is as it should be, waiting included. `causes` lead
    from the object to the root cause, `next` are commands that can be typed as they stand, `advice` says to each of
    them in words what it does or costs. `claims` are the claims that are not bound for this cause. `status` is the
    object's phase and `since` when it was created. `sources` are what was read for the answer, and `skipped` what
    could not be. `conclusive` is false where nothing can be said without the latter.
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
    """All answers."""

    api_version: str = API_VERSION
    kind: str = "WhyReport"
    items: tuple[Item, ...] = ()
