"""Finds what the watches missed: compares what the cluster lists with what we hold, repairs it and counts it.

Only metadata is listed, in large pages, and each check sends a bounded number of requests: kinds take turns, and a
kind with more pages than are left goes on where it stopped. A difference counts only when a second look, at the
next check, finds it unrepaired: until then the watch may simply be on its way.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from kube.api import METADATA_ONLY, KubeApi
from kube.errors import KubeError, NotFound
from kube.reflector import ObjectHead, ObjectMeta
from kube.resource import Resource

PAGE: Final = 5_000
"""Objects a page: about 7 MB of metadata. 100,000 objects are 20 requests, so they are seen every 2 minutes."""

REPAIRS: Final = 20
"""Objects of a kind repaired one by one. More than that, and a new list is cheaper."""

KINDS: Final = ("missing", "extra", "outdated")

_TURN: Final = 500
_HEAD: Final = msgspec.json.Decoder(ObjectHead)

logger = logging.getLogger(__name__)


class Versioned(Protocol):
    """What every record says about itself."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Versioned)


class Held(Protocol[T]):
    """The collection that a reflector fills."""

    @property
    def items(self) -> Mapping[str, T]: ...

    def upsert(self, item: T) -> None: ...

    def delete(self, key: str) -> None: ...


class Relisting(Protocol):
    """The reflector of the collection."""

    @property
    def synced(self) -> asyncio.Event: ...

    def relist(self) -> None: ...


class DriftObserver(Protocol):
    """The gauge of objects that differed at the last look; 0 is reported too."""

    def drift(self, resource: str, kind: str, objects: int) -> None: ...


@dataclass(frozen=True, slots=True)
class DriftPart(Generic[T]):
    """One kind to be checked."""

    resource: Resource
    decode: Callable[[bytes], T]
    held: Held[T]
    reflector: Relisting


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A difference seen once. `version` is the listed one, or for an extra object the held one."""

    kind: str
    version: int


def suspect(held: Versioned | None, listed: ObjectMeta) -> Suspicion | None:
    """Compare a listed object with what is held. Versions order all objects of a kind (KEP-5504)."""
    version = int(listed.resource_version)
    if held is None:
        return Suspicion("missing", version)
    return Suspicion("outdated", version) if held.resource_version < version else None


def still_suspect(held: Versioned | None, suspicion: Suspicion) -> bool:
    """Say whether a difference seen before is still there."""
    if suspicion.kind == "extra":
        return held is not None and held.resource_version == suspicion.version
    return held is None or held.resource_version < suspicion.version


class _Walk:
    """The comparison of one kind, page by page, and the suspicions it raised."""

    def __init__(self, part: DriftPart[Any]) -> None:
        self.part = part
        self.following = ""
        self.suspicions: dict[str, Suspicion] = {}
        self.malformed: dict[str, int] = {}
        self._unlisted: set[str] = set()

    def begin(self) -> None:
        self.following = ""
        self._unlisted = set(self.part.held.items)

    async def compare(self, items: Sequence[bytes]) -> None:
        for start in range(0, len(items), _TURN):
            for raw in items[start : start + _TURN]:
                listed = _HEAD.decode(raw).metadata
                self._unlisted.discard(listed.key)
                found = suspect(self.part.held.items.get(listed.key), listed)
                if found is not None and self.malformed.get(listed.key) != found.version:
                    self.suspicions[listed.key] = found
            await asyncio.sleep(0)

    def finish(self, list_version: str) -> None:
        """Suspect what is held and was not listed, unless it is newer than the list."""
        for key in self._unlisted:
            held = self.part.held.items.get(key)
            if held is not None and held.resource_version <= int(list_version):
                self.suspicions[key] = Suspicion("extra", held.resource_version)
        self._unlisted = set()

    def standing(self) -> dict[str, Suspicion]:
        """Hand out the suspicions that are still there, and forget them all."""
        items = self.part.held.items
        found = {key: said for key, said in self.suspicions.items() if still_suspect(items.get(key), said)}
        self.suspicions = {}
        return found


class DriftCheck:
    """Checks all kinds in turn. `requests` bounds the requests of one check."""

    def __init__(
        self, api: KubeApi, parts: Iterable[DriftPart[Any]], observer: DriftObserver, *, requests: int = 12
    ) -> None:
        self._api = api
        self._observer = observer
        self._requests = requests
        self._left = 0
        self._turns = deque(_Walk(part) for part in parts)

    async def check(self) -> None:
        """Take the second look at what the last check found, then the first look at as much as the budget allows.

        Repairs come on top of the budget, at most REPAIRS a kind. A request that fails is logged, and its kind has
        to wait for its next turn.
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
            extra = {"resource": walk.part.resource.label, "err": str(error)}
            logger.warning("Drift check incomplete", extra=extra)

    async def _walk(self, walk: _Walk) -> bool:
        """Compare page after page. Returns whether the kind is done."""
        while self._left > 0:
            if not walk.following:
                walk.begin()
            self._left -= 1
            page = await self._api.list_page(
                walk.part.resource, limit=PAGE, following=walk.following, accept=METADATA_ONLY
            )
            await walk.compare(page.items)
            walk.following = page.following
            if not page.following:
                walk.finish(page.resource_version)
                return True
        return False

    async def _confirm(self, walk: _Walk) -> None:
        standing = walk.standing()
        drifted: Counter[str] = Counter()
        # Read one by one, an object does not say whether the selector of its part still picks it.
        if len(standing) > REPAIRS or (standing and walk.part.resource.field_selector):
            drifted.update(said.kind for said in standing.values())
            walk.part.reflector.relist()
        else:
            for key, said in standing.items():
                drifted.update({said.kind: 1} if await self._repair(walk, key, said) else {})
        for kind in KINDS:
            self._observer.drift(walk.part.resource.label, kind, drifted[kind])
        if drifted:
            logger.warning("Repaired drift", extra={"resource": walk.part.resource.label, "objects": dict(drifted)})

    async def _repair(self, walk: _Walk, key: str, said: Suspicion) -> bool:
        """Read the object and put what is true into the collection. Returns whether we were wrong about it."""
        part = walk.part
        namespace, _, name = key.rpartition("/")
        try:
            raw = await self._api.get(part.resource, name, namespace)
        except NotFound:
            return self._settle(part, key, said, None)
        try:
            item = part.decode(raw)
        except Exception:  # any failure of a decoder means the object is malformed; the reflector has said so
            walk.malformed[key] = said.version
            return False
        return self._settle(part, key, said, item)

    def _settle(self, part: DriftPart[Any], key: str, said: Suspicion, item: Versioned | None) -> bool:
        held = part.held.items.get(key)
        if not still_suspect(held, said):
            return False
        if item is not None:
            part.held.upsert(item)
            return held is None or held.resource_version < item.resource_version
        if held is not None:
            part.held.delete(key)
        return held is not None
