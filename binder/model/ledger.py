"""What the watches cannot show yet: decisions whose writes are under way, or whose outcome is unknown.

A hold withholds a volume from other claims and says that the claim has it, until its attempt has ended; from then on
the objects say so themselves, for every response is put into the store. Nothing that a user can write ends one: not an
annotation, not a claim of the same name. The ledger is a persistent value; every operation returns a new one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kube.persistent_map import Map

_Names = Map[str, None]


@dataclass(frozen=True, slots=True)
class Hold:
    """A volume held for the claim of this uid, for a pod for which the node has room.

    `in_doubt`: the attempt to write it has ended, and whether the write was executed is not known.
    """

    volume: str
    claim_key: str
    claim_uid: str
    pod_key: str
    node: str
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """A node that is being selected for the volume of a claim of this uid. `in_doubt` as of a hold."""

    claim_key: str
    claim_uid: str
    pod_key: str
    node: str
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """Holds by volume, and indexes by claim and pod. `lifts`: the uids of pods, by key, whose gate is being removed.
    `selections`: nodes that are being selected, by claim.
    """

    holds: Map[str, Hold] = Map()
    by_claim: Map[str, _Names] = Map()
    by_pod: Map[str, _Names] = Map()
    lifts: Map[str, str] = Map()
    selections: Map[str, Selection] = Map()

    def with_holds(self, holds: Iterable[Hold]) -> "Ledger":
        """Add holds; an existing one for the same volume is replaced."""
        ledger = self
        for hold in holds:
            ledger = ledger.without(hold.volume)._added(hold)
        return ledger

    def without(self, *volumes: str) -> "Ledger":
        """Drop the holds of these volumes: the objects show by now what became of them."""
        ledger = self
        for name in volumes:
            hold = ledger.holds.get(name)
            if hold is not None:
                ledger = replace(
                    ledger,
                    holds=ledger.holds.delete(name),
                    by_claim=_removed(ledger.by_claim, hold.claim_key, name),
                    by_pod=_removed(ledger.by_pod, hold.pod_key, name),
                )
        return ledger

    def doubted(self, pod_key: str) -> "Ledger":
        """The attempt for the pod has ended, and which of its writes were executed is not known."""
        doubts = {hold.volume: replace(hold, in_doubt=True) for hold in self.of_pod(pod_key)}
        selections = {each.claim_key: replace(each, in_doubt=True) for each in self.selected_for(pod_key)}
        return replace(self, holds=self.holds.update(doubts), selections=self.selections.update(selections))

    def with_selections(self, selections: Iterable[Selection]) -> "Ledger":
        """Add nodes that are about to be selected."""
        added = {each.claim_key: each for each in selections}
        return replace(self, selections=self.selections.update(added)) if added else self

    def without_selections(self, pod_key: str) -> "Ledger":
        """Drop those for the pod: its claims show by now which node is selected."""
        selected = self.selected_for(pod_key)
        if not selected:
            return self
        mutation = self.selections.mutate()
        for each in selected:
            del mutation[each.claim_key]
        return replace(self, selections=mutation.finish())

    def selected_for(self, pod_key: str) -> tuple[Selection, ...]:
        return tuple(each for each in self.selections.values() if each.pod_key == pod_key)

    def node_of(self, claim_key: str, claim_uid: str) -> str:
        """Return the node that is being selected for the claim, empty if there is none."""
        selection = self.selections.get(claim_key)
        return selection.node if selection is not None and selection.claim_uid == claim_uid else ""

    def with_lift(self, pod_key: str, uid: str) -> "Ledger":
        """The pod's gate is about to be removed."""
        return replace(self, lifts=self.lifts.set(pod_key, uid))

    def without_lift(self, pod_key: str) -> "Ledger":
        """The pod's gate is removed, as the pod itself shows, or stays."""
        return replace(self, lifts=self.lifts.delete(pod_key)) if pod_key in self.lifts else self

    def keeps(self, volume: str) -> Hold | None:
        """Return the hold that withholds this volume from other claims, if there is one."""
        return self.holds.get(volume)

    def of_claim(self, claim_key: str) -> Iterator[Hold]:
        return (self.holds[name] for name in self.by_claim.get(claim_key, Map()))

    def of_pod(self, pod_key: str) -> Iterator[Hold]:
        return (self.holds[name] for name in self.by_pod.get(pod_key, Map()))

    def _added(self, hold: Hold) -> "Ledger":
        return replace(
            self,
            holds=self.holds.set(hold.volume, hold),
            by_claim=_put(self.by_claim, hold.claim_key, hold.volume),
            by_pod=_put(self.by_pod, hold.pod_key, hold.volume),
        )


def _put(index: Map[str, _Names], key: str, name: str) -> Map[str, _Names]:
    return index.set(key, index.get(key, Map()).set(name, None))


def _removed(index: Map[str, _Names], key: str, name: str) -> Map[str, _Names]:
    rest = index[key].delete(name)
    return index.set(key, rest) if rest else index.delete(key)
