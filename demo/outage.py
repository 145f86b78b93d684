"""The demo's second act: an Available volume becomes unhealthy while pods wait for such volumes, and recovers."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path

from binder.health.quarantine import in_quarantine
from binder.reservation.contract import Annotations
from demo.scene import NAMESPACE, PATIENT, REPLICAS, SHOP
from demo.show import Show
from demo.view import Patient, Row
from demo.watch import Watcher
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, make_well


async def play_outage(
    show: Show,
    watcher: Watcher,
    volumes: Path,
    create_shop: Callable[[], Awaitable[None]],
    open_shop: Callable[[], Awaitable[None]],
) -> None:
    """Let pods wait, make the volume unhealthy, release them, let it recover; return when each has a volume and
    runs.
    """
    await create_shop()
    await show.until(all_wait, f"{REPLICAS} pods of {SHOP} to wait")
    show.tell(f"{REPLICAS} pods are held by a scheduling gate; each needs a volume of the class of {PATIENT}")
    watcher.patient = Patient(PATIENT, watcher.clock.now())
    break_volume(volumes, PATIENT, VolumeFault.GONE)
    show.tell(f"{PATIENT} becomes unhealthy: its directory was removed")
    await show.until(lambda _: quarantined(watcher), f"{PATIENT} to be quarantined")
    show.tell(f"{PATIENT} is quarantined: no claim can use it; the gates are removed")
    await open_shop()
    await show.until(all_but_one_served, f"{REPLICAS - 1} pods of {SHOP} to get volumes and one to be rejected")
    waiting = rejected(show.rows)
    show.tell(f"{served(show.rows)}; {waiting} waits")
    show.tell(f"{PATIENT} recovers: its directory was restored")
    recovered = watcher.clock.now()
    make_well(volumes, PATIENT)
    await show.until(lambda _: not quarantined(watcher), f"{PATIENT} to be released")
    # What was seen before it recovered would be shown beside the claim that gets it.
    await watcher.ask_about([watcher.snapshot.volumes[PATIENT]], timedelta())
    show.tell(f"{PATIENT} is released, {(watcher.clock.now() - recovered).total_seconds():.1f} s after it recovered")
    await show.until(lambda rows: all_served(rows) and running(watcher), f"all pods of {SHOP} to run")
    show.tell(f"{served([row for row in show.rows if row.pod == waiting])} and runs")


def quarantined(watcher: Watcher) -> bool:
    """Whether the volume is in quarantine at this moment."""
    volume = watcher.snapshot.volumes.get(PATIENT)
    return volume is not None and in_quarantine(volume, Annotations())


def running(watcher: Watcher) -> bool:
    """Whether every pod of the shop runs."""
    pods = [pod for pod in watcher.snapshot.pods.values() if pod.key.startswith(f"{NAMESPACE}/{SHOP}-")]
    return len(pods) == REPLICAS and all(pod.phase == "Running" for pod in pods)


def all_wait(rows: Sequence[Row]) -> bool:
    """Whether every claim of the shop exists and has no volume yet."""
    return [row.state for row in of_the_shop(rows)] == ["Pending"] * REPLICAS


def all_but_one_served(rows: Sequence[Row]) -> bool:
    """Whether every claim of the shop is bound except one whose pod has an Event with the reason."""
    states = sorted(row.state.partition(" ")[0] for row in of_the_shop(rows))
    return states == ["Bound"] * (REPLICAS - 1) + ["Rejected"]


def all_served(rows: Sequence[Row]) -> bool:
    """Whether every claim of the shop is bound."""
    return [row.state for row in of_the_shop(rows)] == ["Bound"] * REPLICAS


def of_the_shop(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the shop's claims."""
    return [row for row in rows if row.pod.startswith(f"{SHOP}-")]


def served(rows: Sequence[Row]) -> str:
    """Return which pods of the shop have which volumes."""
    return ", ".join(f"{row.pod} has {row.volume}" for row in of_the_shop(rows) if row.state == "Bound")


def rejected(rows: Sequence[Row]) -> str:
    """Return the name of the rejected pod of the shop, empty if none was."""
    return next((row.pod for row in of_the_shop(rows) if row.state.startswith("Rejected")), "")
