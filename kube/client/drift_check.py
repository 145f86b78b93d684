"""Detects what the watches missed: compares the cluster's lists with the cache, repairs the cache and counts the
differences.

Only metadata is listed, in large pages, and each check sends a bounded number of requests: kinds take turns, and a kind
with more pages than are left continues where it stopped. A difference counts only if the next check still sees it:
until then the watch event may simply be in transit.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec

from kube.client.api import METADATA_ONLY, KubeApi
from kube.client.reflector import ObjectHead
from kube.errors import KubeError, NotFound
from kube.objects.api_resource import Resource

if TYPE_CHECKING:
    from kube.metrics import WatchMetrics

PAGE: Final = 5_000
"""Objects a page: about 7 MB of metadata. 100,000 objects are 20 requests, so all are compared every 2 minutes."""

REPAIRS: Final = 20
"""Objects of a kind that are repaired individually. For more than that, a new list is cheaper."""

KINDS: Final = ("missing", "extra", "outdated")

_TURN: Final = 500
_HEAD: Final = msgspec.json.Decoder(ObjectHead)

logger = logging.getLogger(__name__)


class Versioned(Protocol):
    """What every record has."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Versioned)


class Held(Protocol[T]):
    """The collection that a reflector fills."""

    @property
    def items(self) -> Mapping[str, T]: ...

    @property
    def version(self) -> int:
        """The version up to which lists and watch have been applied."""

    def remember(self, item: T, as_of: int) -> None:
        """Store the response to a read that was sent at `version` `as_of`."""

    def forget(self, key: str, version: int) -> None:
        """Drop an object that did not exist at that version."""


class Relisting(Protocol):
    """The reflector of the collection."""

    @property
    def synced(self) -> asyncio.Event: ...

    def relist(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CheckedKind(Generic[T]):
    """One kind to be checked."""

    resource: Resource
    decode: Callable[[bytes], T]
    held: Held[T]
    reflector: Relisting


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A difference that was seen once. `listed` is the object's version in the list, 0 if absent; `as_of` the list's
    own.
    """

    kind: str
    listed: int
    as_of: int


def suspect(held: Versioned | None, listed: int, as_of: int) -> Suspicion | None:
    """Compare a listed object with the cached one. Versions order all objects of a kind (KEP-5504).

    The cached object must be as listed, unless it is newer than the list.
    """
    if held is None:
        return Suspicion("missing", listed, as_of)
    outdated = held.resource_version != listed and held.resource_version <= as_of
    return Suspicion("outdated", listed, as_of) if outdated else None


def still_suspect(held: Versioned | None, suspicion: Suspicion) -> bool:
    """Return whether a difference seen before still exists."""
    if held is None:
        return suspicion.kind != "extra"
    return held.resource_version != suspicion.listed and held.resource_version <= suspicion.as_of


class _Walk:
    """The comparison of one kind, page by page, and the suspicions it raised."""

    def __init__(self, part: CheckedKind[Any]) -> None:
        self.part = part
        self.following = ""
        self.suspicions: dict[str, Suspicion] = {}
        self.malformed: dict[str, int] = {}
        self._unlisted: set[str] = set()
        self._began_at = 0

    def begin(self) -> None:
        self.following = ""
        self._unlisted = set(self.part.held.items)
        self._began_at = self.part.held.version

    async def compare(self, items: Sequence[bytes], as_of: int) -> None:
        """Compare a page of a list of that version."""
        for start in range(0, len(items), _TURN):
            for raw in items[start : start + _TURN]:
                listed = _HEAD.decode(raw).metadata
                self._unlisted.discard(listed.key)
                suspicion = suspect(self.part.held.items.get(listed.key), int(listed.resource_version), as_of)
                if suspicion is not None and self.malformed.get(listed.key) != suspicion.listed:
                    self.suspicions[listed.key] = suspicion
            await asyncio.sleep(0)

    def finish(self, as_of: int) -> None:
        """Suspect cached objects that were not listed, unless they are newer than the list.

        If the list is older than what was shown before it, the server was restored from a backup: then everything may
        be wrong.
        """
        if as_of < self._began_at:
            self.part.reflector.relist()
        for key in self._unlisted:
            held = self.part.held.items.get(key)
            if held is not None and held.resource_version <= as_of:
                self.suspicions[key] = Suspicion("extra", 0, as_of)
        self._unlisted = set()

    def standing(self) -> dict[str, Suspicion]:
        """Return the suspicions that still hold, and forget all of them."""
        items = self.part.held.items
        standing = {
            key: suspicion for key, suspicion in self.suspicions.items() if still_suspect(items.get(key), suspicion)
        }
        self.suspicions = {}
        return standing


class DriftCheck:
    """Checks all kinds in turn. `requests` bounds the requests of a check."""

    def __init__(
        self, api: KubeApi, parts: Iterable[CheckedKind[Any]], metrics: "WatchMetrics", *, requests: int = 12
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._requests = requests
        self._left = 0
        self._turns = deque(_Walk(part) for part in parts)

    async def check(self) -> None:
        """Check the differences found by the last check again, then compare as many further pages as the budget allows.

        Repairs come on top of the budget, at most REPAIRS a kind. A request that fails is logged, and its kind waits
        for its next turn.
        """
        self._left = self._requests
        for walk in self._turns:
            with self._contained(walk):
                await self._confirm(walk)
        for _ in range(len(self._turns)):
            walk, done = self._turns[0], True
            if walk.part.reflector.synced.is_set():
                with self._contained(walk):
                    done = await self._walk(walk)
            if not done:
                return
            self._turns.rotate(-1)

    @contextmanager
    def _contained(self, walk: _Walk) -> Iterator[None]:
        try:
            yield
        except (KubeError, msgspec.DecodeError, ValueError) as error:
            walk.begin()
            extra = {"resource": walk.part.resource.label, "error": str(error)}
            logger.warning("Drift check not completed", extra=extra)

    async def _walk(self, walk: _Walk) -> bool:
        """Compare page after page. Returns whether the kind is done."""
        while self._left > 0:
            if not walk.following:
                walk.begin()
            self._left -= 1
            page = await self._api.list_page(
                walk.part.resource, limit=PAGE, following=walk.following, accept=METADATA_ONLY
            )
            as_of = int(page.resource_version)
            await walk.compare(page.items, as_of)
            walk.following = page.following
            if not page.following:
                walk.finish(as_of)
                return True
        return False

    async def _confirm(self, walk: _Walk) -> None:
        standing = walk.standing()
        drifted: Counter[str] = Counter()
        # Read individually, an object does not show whether the selector of its part still selects it.
        if len(standing) > REPAIRS or (standing and walk.part.resource.field_selector):
            drifted.update(suspicion.kind for suspicion in standing.values())
            walk.part.reflector.relist()
        else:
            for key, suspicion in standing.items():
                drifted.update({suspicion.kind: 1} if await self._repair(walk, key, suspicion) else {})
        for kind in KINDS:
            self._metrics.drift(walk.part.resource.label, kind, drifted[kind])
        if drifted:
            logger.warning(
                "Cache drift repaired", extra={"resource": walk.part.resource.label, "objects": dict(drifted)}
            )

    async def _repair(self, walk: _Walk, key: str, suspicion: Suspicion) -> bool:
        """Read the object and store its actual state. Returns whether the cache was wrong."""
        part, as_of = walk.part, walk.part.held.version
        namespace, _, name = key.rpartition("/")
        try:
            raw = await self._api.get(part.resource, name, namespace)
        except NotFound:
            held = part.held.items.get(key)
            wrong = held is not None and still_suspect(held, suspicion)
            if wrong:
                part.held.forget(key, suspicion.as_of)
            return wrong
        try:
            item = part.decode(raw)
        except Exception:  # any failure of a decoder means the object is malformed; the reflector has logged it
            walk.malformed[key] = suspicion.listed
            return False
        wrong = still_suspect(part.held.items.get(key), suspicion)
        part.held.remember(item, as_of)
        if wrong and still_suspect(part.held.items.get(key), suspicion):
            # The watch has continued meanwhile, so this response may be outdated: only a list is certain.
            part.reflector.relist()
        return wrong
