"""`quarantine release` releases what can be released, and reports the rest."""

import pytest

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from kube.client.api import KubeApi
from prebinder.commands.quarantine import release_each
from tests.fakes.kube_api import Connection, FakeKubeApi, failure
from tests.fakes.objects import volume_object


def quarantined(name: str, phase: str = "Available") -> dict[str, object]:
    placeholder = {
        "kind": "PersistentVolumeClaim",
        "namespace": "pvc-prebinder-system",
        "name": f"quarantine-{name}",
    }
    why = {f"{DEFAULT_PREFIX}quarantine": "DataLoss", f"{DEFAULT_PREFIX}quarantined-at": "2026-01-01T00:00:00Z"}
    return volume_object(name, claim=placeholder, annotations=why, phase=phase)


async def test_a_volume_that_cannot_be_released_keeps_no_other_in_quarantine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = FakeKubeApi()
    for document in (quarantined("pv-1", "Released"), quarantined("pv-2"), quarantined("pv-3"), quarantined("pv-4")):
        server.put(document)
    server.reject_next.append(("PATCH /api/v1/persistentvolumes/pv-3", failure(422, "Invalid")))
    problems = await release_each(KubeApi(Connection(server)), ("pv-1", "pv-2", "pv-3", "pv-4"), Annotations())
    assert [problem.split(":")[0] for problem in problems] == [
        'volume "pv-1" is Released; check why, then remove its spec.claimRef by hand',
        'volume "pv-3"',
    ]
    assert capsys.readouterr().out == "pv-2 released\npv-4 released\n"
    assert "claimRef" not in server.get("persistentvolumes", "pv-4")["spec"]
