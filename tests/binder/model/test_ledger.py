"""Holds: what keeps a volume, what books a node, and when each ends."""

from binder.model.ledger import Hold, Ledger
from tests.builders import volume


def hold(name: str = "v", *, pod: str = "default/web", claim: str = "default/data") -> Hold:
    return Hold(name, claim, "uid", pod, "n1", (("cpu", 1),))


def test_a_hold_keeps_the_volume_until_the_watch_shows_our_write() -> None:
    ledger = Ledger().with_holds([hold()]).written("v", 7)
    assert ledger.seen(volume("v", resource_version=6)).keeps("v") is not None
    assert ledger.seen(volume("v", resource_version=7)).keeps("v") is None


def test_a_hold_whose_write_has_not_returned_is_not_ended_by_any_event() -> None:
    assert Ledger().with_holds([hold()]).seen(volume("v", resource_version=9)).keeps("v") is not None


def test_a_node_stays_booked_until_the_pod_is_settled() -> None:
    seen = Ledger().with_holds([hold()]).written("v", 7).seen(volume("v", resource_version=7))
    assert [hold.volume for hold in seen.on_node("n1")] == ["v"]
    assert seen.settled("default/web") == Ledger()


def test_a_settled_pod_leaves_the_volume_held_until_the_write_is_seen() -> None:
    ledger = Ledger().with_holds([hold()]).written("v", 7).settled("default/web")
    assert list(ledger.on_node("n1")) == []
    assert ledger.keeps("v") is not None
    assert ledger.seen(volume("v", resource_version=8)) == Ledger()


def test_dropped_holds_leave_nothing_behind() -> None:
    ledger = Ledger().with_holds([hold("v"), hold("w", claim="default/more")])
    assert [hold.volume for hold in ledger.of_claim("default/more")] == ["w"]
    assert ledger.without("v", "w", "unknown") == Ledger()


def test_a_volume_reserved_again_belongs_to_the_last_claim() -> None:
    ledger = Ledger().with_holds([hold(), hold(claim="default/other")])
    assert list(ledger.of_claim("default/data")) == []
    assert [hold.claim_key for hold in ledger.of_claim("default/other")] == ["default/other"]
