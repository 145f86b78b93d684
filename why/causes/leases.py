"""Whether a component with leader election runs: when it last renewed its Lease."""

import re
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.finding import Step
from why.facts.facts import Facts, Source
from why.report.report import Evidence

ALIVE: Final = timedelta(seconds=60)
"""Since the Lease was renewed: four times what leader election allows."""

CONTROLLER_MANAGER: Final = "kube-controller-manager"
"""The Lease of the component of which the PV controller is a part."""


def last_renewal(facts: Facts, names: Collection[str]) -> datetime | None:
    """Return when a Lease of one of these names was last renewed, None if there is none. Raises Unread."""
    if not facts.has(Source.LEASES):
        return None
    renewals = (lease.renewed for lease in facts.leases.values() if lease.name in names)
    return max((renewed for renewed in renewals if renewed is not None), default=None)


def lease_name(driver: str) -> str:
    """Return a driver's name as it is in names of Leases of its sidecars (leader_election.go in csi-lib-utils)."""
    return re.sub(r"[^a-zA-Z0-9-]", "-", driver)


def provisioner_leases(driver: str) -> tuple[str, str]:
    """Return the names of a provisioner's Lease: of external-provisioner, and of one without CSI.

    Source: leader_election.go of csi-lib-utils, controller.go of sig-storage-lib-external-provisioner.
    """
    return lease_name(driver), driver.replace("/", "-")


def attacher_lease(driver: str) -> str:
    """Return the name of external-attacher's Lease (main.go there)."""
    return f"external-attacher-leader-{lease_name(driver)}"


def resizer_lease(driver: str) -> str:
    """Return the name of external-resizer's Lease (main.go there)."""
    return f"external-resizer-{lease_name(driver)}"


def lease_names(driver: str) -> frozenset[str]:
    """Return the names of the Leases that the sidecars of a driver's controller hold."""
    return frozenset({*provisioner_leases(driver), attacher_lease(driver), resizer_lease(driver)})


def has_lapsed(facts: Facts, renewed: datetime) -> bool:
    return facts.now - renewed >= ALIVE


def lapse_text(facts: Facts, renewed: datetime) -> str:
    return f"its Lease was last renewed {age_text(facts.now - renewed)} ago"


def without_pv_controller(facts: Facts) -> tuple[Evidence, ...]:
    """Return evidence that the PV controller does not run, none if it does or that is unknown."""
    return without_controller_manager(facts, "a PV controller that runs")


def without_controller_manager(facts: Facts, wanted: str = "a controller manager that runs") -> tuple[Evidence, ...]:
    """As above, for any of its controllers."""
    renewed = last_renewal(facts, (CONTROLLER_MANAGER,))
    if renewed is None or not has_lapsed(facts, renewed):
        return ()
    return (Evidence(f"lease/{CONTROLLER_MANAGER}", wanted, lapse_text(facts, renewed)),)


def lapsed_lease(facts: Facts, name: str) -> tuple[Evidence, ...]:
    """Return evidence that the holder of this Lease does not run, none if it does or Leases may not be read."""
    if not facts.has(Source.LEASES):
        return ()
    renewed = last_renewal(facts, (name,))
    if renewed is not None and not has_lapsed(facts, renewed):
        return ()
    state = "no such Lease" if renewed is None else lapse_text(facts, renewed)
    return (Evidence(f"lease {name}", "renewed all the time", state),)


def look_for_pv_controller() -> Step:
    return Step(shell("kubectl -n kube-system get lease {}", CONTROLLER_MANAGER), "is the controller manager running?")
