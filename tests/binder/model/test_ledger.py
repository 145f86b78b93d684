"""Holds: what withholds a volume, and that only the end of an attempt ends one."""

from binder.model.ledger import Hold, Ledger


def hold(name: str = "v", *, pod: str = "default/web", claim: str = "default/data") -> Hold:
    return Hold(name, claim, "uid", pod, "n1")


def test_a_hold_withholds_the_volume_until_it_is_dropped() -> None:
    ledger = Ledger().with_holds([hold()])
    assert ledger.keeps("v") == hold()
    assert ledger.without("v").keeps("v") is None


def test_doubt_about_a_pod_concerns_all_of_its_holds_and_no_other() -> None:
    ledger = Ledger().with_holds([hold("v"), hold("w", claim="default/more"), hold("x", pod="default/other")])
    doubted = ledger.doubted("default/web")
    assert {hold.volume: hold.in_doubt for hold in doubted.holds.values()} == {"v": True, "w": True, "x": False}
    assert [hold.volume for hold in doubted.of_claim("default/data") if hold.in_doubt] == ["v"]


def test_dropped_holds_leave_nothing_behind() -> None:
    ledger = Ledger().with_holds([hold("v"), hold("w", claim="default/more")])
    assert [hold.volume for hold in ledger.of_claim("default/more")] == ["w"]
    assert ledger.without("v", "w", "unknown") == Ledger()


def test_a_volume_reserved_again_belongs_to_the_last_claim() -> None:
    ledger = Ledger().with_holds([hold(), hold(claim="default/other")])
    assert list(ledger.of_claim("default/data")) == []
    assert [hold.claim_key for hold in ledger.of_claim("default/other")] == ["default/other"]


def test_a_lift_is_that_of_one_pod_and_survives_changes_of_holds() -> None:
    ledger = Ledger().with_lift("default/web", "uid-1").with_holds([hold()]).without("v")
    assert dict(ledger.lifts) == {"default/web": "uid-1"}
    assert ledger.without_lift("default/web") == Ledger()
