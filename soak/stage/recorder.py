"""Records every version of every relevant object, from etcd itself: the API server may be unavailable meanwhile.

etcd's JSON gateway is used; the API server stores JSON (`--storage-media-type=application/json`) and compacts nothing
(`--etcd-compaction-interval=0`), so a watch that breaks resumes where it ended.
"""

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from soak.judge.history import Change, Linked, kind_and_key

FLAGS: Final = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
"""What the API server must be started with."""
_ALL: Final = ("/registry/", "/registry0")
_AGAIN: Final = 0.1
_UNLIMITED: Final = aiohttp.ClientTimeout(total=None, sock_connect=2)
_WATCHED: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim", "Pod", "Node", "StorageClass"})


class Recorder:
    """Use `recording`. `changes` grows while it runs; each is also a line of `path`."""

    def __init__(self, etcd: str, path: Path) -> None:
        self._etcd = etcd
        self._file = path.open("w", encoding="utf-8")
        self._linked = Linked()
        self._next = 1
        self.changes: list[Change] = []
        self.changed_at = time.monotonic()
        """When anything but a Lease last changed."""

    async def follow(self) -> None:
        """Record until cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                # While etcd is unavailable there is nothing to record; then the watch resumes after the last revision.
                with suppress(aiohttp.ClientError, OSError, TimeoutError):
                    await self._watch(session)
                await asyncio.sleep(_AGAIN)

    async def reached(self, revision: int) -> None:
        """Return when everything up to that revision is recorded."""
        while self._next <= revision:  # noqa: ASYNC110 - it comes with the watch
            await asyncio.sleep(_AGAIN)

    def close(self) -> None:
        self._file.close()

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        start, end = (b64encode(key.encode()).decode() for key in _ALL)
        request = {"create_request": {"key": start, "range_end": end, "start_revision": str(self._next)}}
        async with session.post(f"{self._etcd}/v3/watch", json=request, timeout=_UNLIMITED) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        result = message.get("result", {})
        if int(result.get("compact_revision", 0)):
            raise RuntimeError(f"etcd was compacted: the history has a gap before {result['compact_revision']}")
        for event in result.get("events", ()):
            self._keep(event)
        self._file.flush()

    def _keep(self, event: dict[str, Any]) -> None:
        stored = event["kv"]
        revision = int(stored["mod_revision"])
        self._next = max(self._next, revision + 1)
        place = kind_and_key(b64decode(stored["key"]).decode())
        if place is None or (place[0] == "Lease" and "pvc-prebinder-system/" not in place[1]):
            return
        after = None if event.get("type") == "DELETE" else json.loads(b64decode(stored["value"]))
        change = self._linked.change(revision, time.time(), *place, after)
        self.changes.append(change)
        self._file.write(change.line() + "\n")
        if change.kind in _WATCHED and not _heartbeat(change):
            self.changed_at = time.monotonic()


def _heartbeat(change: Change) -> bool:
    """Whether only a node's status changed, as kwok renews it."""
    before, after = change.before, change.after
    return change.kind == "Node" and before is not None and after is not None and before["spec"] == after["spec"]


@asynccontextmanager
async def recording(etcd: str, path: Path) -> AsyncIterator[Recorder]:
    """Record while inside the context."""
    recorder = Recorder(etcd, path)
    task = asyncio.create_task(recorder.follow())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        recorder.close()
