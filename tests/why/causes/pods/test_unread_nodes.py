"""Where nodes may not be read the scheduler's message is the answer, if it names one cause."""

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    BOUND,
    DRIVER,
    INSTALLED,
    SCHEDULED,
    Document,
    assert_problem,
    claim,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source

WAITS = [pod("db-0", "data"), *BOUND]
OF_CLUSTER = (Source.NODES, Source.LEASES, Source.CSI_NODES, Source.ALL_PODS)
OF_ADMINISTRATORS = (*OF_CLUSTER, Source.VOLUMES, Source.CLASSES, Source.CSI_DRIVERS)
PREEMPTION = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
NONE_TO_BIND = "3 node(s) didn't find available persistent volumes to bind."
LATER = storage_class(provisioner=DRIVER)
IN_C = {**LATER, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]}
TO_BE_MADE = claim(metadata={"annotations": {SELECTED_NODE: "a1"}})


def of_scheduler(note: str) -> Document:
    return event("Pod", "db-0", "FailedScheduling", note, reporter="default-scheduler")


def verdict(reasons: str) -> Document:
    return of_scheduler(f"0/3 nodes are available: {reasons}{PREEMPTION}")


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (Reason.TOPOLOGY_CONFLICT, "3 node(s) didn't match PersistentVolume's node affinity."),
        (Reason.TOPOLOGY_CONFLICT, "1 Insufficient cpu, 2 node(s) had volume node affinity conflict."),
        (Reason.TOPOLOGY_CONFLICT, "3 node(s) had no available volume zone."),
        (Reason.ATTACH_LIMIT_REACHED, "3 node(s) exceed max volume count."),
        (Reason.NO_NODE_FITS, "1 Insufficient cpu, 2 node(s) were unschedulable."),
        (Reason.CLAIM_LOST, "3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."),
    ],
)
def test_its_message_names_the_cause(code: Reason, reasons: str) -> None:
    item = why("pod/db-0", *WAITS, verdict(reasons), without=OF_CLUSTER)
    assert_problem(item, code)
    assert item.message.startswith("default-scheduler reports that ")
    assert item.message.endswith("That cannot be confirmed without nodes (forbidden).")
    assert reasons in item.evidence[0].found
    assert "nodes" in [skipped.resource for skipped in item.skipped]


def test_the_claim_of_the_pod_has_the_same_answer() -> None:
    documents = [pod("db-0", "data"), claim(), verdict(NONE_TO_BIND)]
    of_pod, of_claim = (why(each, *documents, without=OF_ADMINISTRATORS) for each in ("pod/db-0", "pvc/data"))
    assert_problem(of_pod, Reason.NO_VOLUME_FITS)
    assert (of_claim.code, of_claim.message) == (of_pod.code, of_pod.message)


def test_the_condition_of_the_pod_is_as_good_as_its_events() -> None:
    note = "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": note}
    item = why("pod/db-0", pod("db-0", "data", status={"conditions": [condition]}), *BOUND, without=OF_CLUSTER)
    assert_problem(item, Reason.TOPOLOGY_CONFLICT)
    assert item.evidence[0].object == "pod/web/db-0 condition PodScheduled"


def test_the_condition_counts_where_an_event_repeats_what_was_reported_first() -> None:
    """Reports within six minutes are one Event, with the note of the first and the time of the last."""
    first = of_scheduler('0/3 nodes are available: persistentvolumeclaim "data" not found.')
    note = f"0/3 nodes are available: {NONE_TO_BIND}{PREEMPTION}"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": note}
    waits = pod("db-0", "data", status={"conditions": [condition]})
    item = why("pod/db-0", waits, claim(), first, without=OF_ADMINISTRATORS)
    assert_problem(item, Reason.NO_VOLUME_FITS)
    assert item.evidence[0].object == "pod/web/db-0 condition PodScheduled"


def test_an_event_whose_note_is_cut_says_what_the_condition_says() -> None:
    reasons = f"{NONE_TO_BIND}{PREEMPTION} " + "and so on, " * 120
    note = f"0/3 nodes are available: {reasons}"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": note}
    waits = pod("db-0", "data", status={"conditions": [condition]})
    item = why("pod/db-0", waits, claim(), of_scheduler(f"{note[:1020]} ..."), without=OF_ADMINISTRATORS)
    assert "Event FailedScheduling of default-scheduler" in item.evidence[0].object


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (Reason.CLAIM_NOT_FOUND, '0/3 nodes are available: persistentvolumeclaim "data" not found.'),
        (
            Reason.CLAIM_NOT_FOUND,
            "0/3 nodes are available: waiting for ephemeral volume controller to create the "
            'persistentvolumeclaim "data".',
        ),
        (Reason.CLAIM_DELETING, '0/3 nodes are available: persistentvolumeclaim "data" is being deleted.'),
        (
            Reason.CLAIM_LOST,
            '0/3 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "pv-1".',
        ),
    ],
)
def test_without_claims_it_names_the_claim(code: Reason, note: str) -> None:
    item = why("pod/db-0", pod("db-0", "data"), of_scheduler(note), without=(*OF_ADMINISTRATORS, Source.CLAIMS))
    assert_problem(item, code)
    assert "claim data of the pod" in item.message


@pytest.mark.parametrize(
    ("code", "documents"),
    [
        (Reason.SELECTED_NODE_STALE, [TO_BE_MADE, LATER]),
        (Reason.TOPOLOGY_NOT_ALLOWED, [claim(), IN_C]),
        (Reason.INCONCLUSIVE, [claim(), LATER]),
    ],
)
def test_a_text_with_several_meanings_is_decided_by_what_was_read(code: Reason, documents: list[Document]) -> None:
    item = why("pod/db-0", pod("db-0", "data"), *documents, *INSTALLED, verdict(NONE_TO_BIND), without=OF_CLUSTER)
    assert item.code is code


def test_volumes_of_two_zones_are_recognized() -> None:
    other = [claim("logs", volume="pv-2"), volume("pv-2", claim="logs", zone="b")]
    conflict = verdict("3 node(s) didn't match PersistentVolume's node affinity.")
    item = why("pod/db-0", pod("db-0", "data", "logs"), *BOUND, *other, conflict, without=OF_CLUSTER)
    assert_problem(item, Reason.VOLUMES_IN_DIFFERENT_ZONES)


@pytest.mark.parametrize(
    "note",
    [
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "0/3 nodes are available: 1 node(s) exceed max volume count, 2 node(s) had volume node affinity conflict.",
        'running "VolumeBinding" filter plugin: something else',
    ],
)
def test_a_symptom_several_causes_or_another_text_is_no_answer(note: str) -> None:
    item = why("pod/db-0", *WAITS, of_scheduler(note), without=OF_CLUSTER)
    assert item.code is Reason.INCONCLUSIVE
    assert note in item.evidence[0].found


def test_a_pod_that_preempts_others_has_no_problem_that_is_known() -> None:
    waits = pod("db-0", "data", status={"nominatedNodeName": "a1"})
    item = why("pod/db-0", waits, *BOUND, verdict("3 Insufficient cpu."), without=OF_CLUSTER)
    assert item.code is Reason.INCONCLUSIVE


@pytest.mark.parametrize(
    ("source", "code", "reasons"),
    [
        (Source.ALL_PODS, Reason.NO_NODE_FITS, "3 Insufficient cpu."),
        (Source.CSI_NODES, Reason.ATTACH_LIMIT_REACHED, "3 node(s) exceed max volume count."),
    ],
)
def test_what_is_on_the_nodes_counts_as_well(source: Source, code: Reason, reasons: str) -> None:
    item = why("pod/db-0", *WAITS, node("a1"), SCHEDULED, *INSTALLED, verdict(reasons), without=[source])
    assert_problem(item, code)
    assert item.message.endswith(f"That cannot be confirmed without {source} (forbidden).")


def test_what_was_read_of_the_nodes_counts_more() -> None:
    item = why("pod/db-0", *WAITS, node("a1"), verdict("3 Insufficient cpu."), without=[Source.LEASES])
    assert item.code is Reason.INCONCLUSIVE
