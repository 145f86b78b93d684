"""Every order in which a watch, lists and single reads can reach a collection, for two objects of one name in turn.

The history is fixed and walked through step by step. Reads and lists are answered by the server at one moment and
arrive at another, and the watch is as late as it likes. All states that can come of it are visited.
"""

from typing import Final, NamedTuple

from kube.objects.model import Volume
from kube.store.collection import Collection
from tests import builders

FIRST, SECOND = "first", "second"
HISTORY: Final = {11: FIRST, 12: FIRST, 13: None, 14: SECOND, 15: SECOND, 16: None}
"""The uid of the only object after each version; None is its deletion. 10 is before all of them."""
UNCHANGED: Final = 17
"""The version of a change of another object of the kind."""
START, END = 10, UNCHANGED
READS_AT_ONCE: Final = 2


def existing(version: int) -> Volume | None:
    """The object as it was at a version."""
    changed = max((number for number in HISTORY if number <= version), default=START)
    uid = HISTORY.get(changed)
    return None if uid is None else builders.volume("pv", uid=uid, resource_version=changed)


class State(NamedTuple):
    """`reads` are under way: the collection's version when they were sent, and the server's when it answered.

    `listed` is the server's version of a list that is under way, instead of a watch. `known` is the newest version at
    which something delivered has shown the object.
    """

    server: int
    watched: int
    listed: int
    reads: frozenset[tuple[int, int]]
    version: int
    held: Volume | None
    known: int


def collection_of(state: State) -> Collection[Volume]:
    volumes: Collection[Volume] = Collection()
    volumes.replace([state.held] if state.held is not None else [], "")
    volumes.version = state.version
    return volumes


def delivered(state: State, volumes: Collection[Volume], known: int) -> State:
    return state._replace(version=volumes.version, held=volumes.items.get("pv"), known=max(state.known, known))


def next_states(state: State) -> list[State]:
    successors: list[State] = []
    if state.server < END:
        successors.append(state._replace(server=state.server + 1))
    if not state.listed:
        successors.append(state._replace(listed=state.server))
        if state.watched < state.server:
            successors.append(shown(state))
    else:
        volumes, there = collection_of(state), existing(state.listed)
        volumes.replace([there] if there is not None else [], str(state.listed))
        successors.append(delivered(state, volumes, state.listed)._replace(watched=state.listed, listed=0))
    if len(state.reads) < READS_AT_ONCE:
        successors.append(state._replace(reads=state.reads | {(state.version, state.server)}))
    for read in state.reads:
        successors.append(answered(state, read)._replace(reads=state.reads - {read}))
    return successors


def shown(state: State) -> State:
    """The next event of the watch."""
    version, volumes = state.watched + 1, collection_of(state)
    there = existing(version)
    if version == UNCHANGED:
        volumes.upsert(builders.volume("other", resource_version=version))
    elif there is not None:
        volumes.upsert(there)
    else:
        volumes.delete("pv", version)
    return delivered(state, volumes, version)._replace(watched=version)


def answered(state: State, read: tuple[int, int]) -> State:
    """A single read arrives. That there is no such object is no news: the watch will say when that was."""
    as_of, served = read
    there = existing(served)
    if there is None:
        return state
    volumes = collection_of(state)
    volumes.remember(there, as_of)
    return delivered(state, volumes, max(there.resource_version, as_of))


def test_nothing_held_is_ever_older_than_what_was_delivered() -> None:
    waiting = [State(START, START, 0, frozenset(), START, None, START)]
    visited = set(waiting)
    while waiting:
        state = waiting.pop()
        assert state.held == existing(state.known), state
        fresh = [following for following in next_states(state) if following not in visited]
        visited.update(fresh)
        waiting.extend(fresh)
    assert len(visited) > 10_000
