"""What `reservations list` says of a volume, by what is written on it."""

from datetime import timedelta

import pytest

from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects.model import ClaimReference, Volume
from kube.store.store import snapshot_of
from prebinder.reservations.rows import HEADERS, ReservationRow, reservation_rows
from tests.builders import EPOCH, claim, pod, volume

ANNOTATIONS = Annotations()
MINUTE = timedelta(minutes=1)
NOW = EPOCH + 10 * MINUTE
DATA = claim("data", namespace="shop")
KEPT = VolumeReservation(DATA.key, DATA.uid, EPOCH, EPOCH + 15 * MINUTE, Holder("controller-a", 3))
PLACED = VolumeReservation(
    DATA.key, DATA.uid, EPOCH, EPOCH + 15 * MINUTE, Holder("controller-a", 3), "zone-a", ("n1", "n2", "n3")
)
OURS = ClaimReference("shop", "data", DATA.uid)
WRITTEN = ANNOTATIONS.for_volume(KEPT)


def rows_of(*volumes: Volume, namespace: str = "", on_claim: bool = False) -> list[ReservationRow]:
    theirs = ClaimReservation("pv-1", EPOCH, EPOCH + 15 * MINUTE, "zone-b", ("n9",))
    written = {key: value for key, value in ANNOTATIONS.for_claim(theirs).items() if value} if on_claim else {}
    data = claim("data", namespace="shop", annotations=written)
    snapshot = snapshot_of([*volumes, data, pod("db-0", namespace="shop", claims=["data"])], ANNOTATIONS.prefix)
    return list(reservation_rows(snapshot, ANNOTATIONS, {"pv-1": "Healthy"}, NOW, namespace))


def cells_of(subject: Volume, *, on_claim: bool = False) -> dict[str, str]:
    (row,) = rows_of(subject, on_claim=on_claim)
    return dict(zip(HEADERS, row.cells(NOW), strict=True))


def test_a_row_names_volume_claim_pod_times_holder_and_health() -> None:
    assert cells_of(volume(annotations=WRITTEN)) == {
        "VOLUME": "pv-1",
        "CLAIM": "shop/data",
        "POD": "db-0",
        "MODE": "annotate",
        "ZONE": "",
        "NODE": "",
        "SINCE": "10m",
        "EXPIRES": "in 5m",
        "HOLDER": "controller-a/3",
        "HEALTH": "Healthy",
        "STATUS": "Held",
    }


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(volume(annotations=WRITTEN), "annotate", id="no claimRef"),
        pytest.param(
            volume(annotations=WRITTEN | ANNOTATIONS.claim_ref_record(DATA), claim=OURS), "prebind", id="recorded"
        ),
        pytest.param(volume(annotations=WRITTEN, claim=OURS), "complete", id="a bind without a record"),
    ],
)
def test_the_mode_is_what_was_written(subject: Volume, expected: str) -> None:
    assert cells_of(subject)["MODE"] == expected


@pytest.mark.parametrize(
    ("subject", "status", "expires"),
    [
        pytest.param(volume(annotations=WRITTEN, phase="Bound", claim=OURS), "Bound", "", id="bound"),
        pytest.param(
            volume(annotations=ANNOTATIONS.for_volume(KEPT) | {ANNOTATIONS.expires_at: "2026-01-01T00:05:00Z"}),
            "Expired",
            "5m ago",
            id="expired",
        ),
        pytest.param(volume(annotations=WRITTEN | {ANNOTATIONS.bound_at: "soon"}), "Invalid", "", id="invalid"),
    ],
)
def test_the_status_says_what_became_of_it(subject: Volume, status: str, expires: str) -> None:
    cells = cells_of(subject)
    assert (cells["STATUS"], cells["EXPIRES"], cells["CLAIM"]) == (status, expires, "shop/data")


def test_the_place_is_on_the_volume_or_on_the_claim_that_names_it() -> None:
    assert cells_of(volume(annotations=ANNOTATIONS.for_volume(PLACED)))["NODE"] == "n1, n2 and 1 more"
    assert cells_of(volume(annotations=WRITTEN), on_claim=True)["ZONE"] == "zone-b"
    assert cells_of(volume("pv-2", annotations=WRITTEN), on_claim=True)["ZONE"] == ""


def test_other_volumes_and_other_namespaces_are_left_out() -> None:
    assert rows_of(volume(annotations={ANNOTATIONS.health: "DataLoss"})) == []
    assert [row.volume for row in rows_of(volume(annotations=WRITTEN), namespace="shop")] == ["pv-1"]
    assert rows_of(volume(annotations=WRITTEN), namespace="sho") == []


def test_a_document_has_null_for_what_is_unknown() -> None:
    (row,) = rows_of(volume(annotations=WRITTEN | {ANNOTATIONS.bound_at: "soon"}))
    assert row.document() | {"pods": [], "health": None} == {
        "volume": "pv-1",
        "claim": "shop/data",
        "pods": [],
        "mode": "annotate",
        "zone": None,
        "nodes": [],
        "since": None,
        "expires": None,
        "holder": None,
        "health": None,
        "status": "Invalid",
    }
