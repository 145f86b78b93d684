"""A pod that was given to an autoscaler, with its volumes bound or its gate removed, and that has no node yet."""

from collections.abc import Sequence

from binder.matching.rejection import Reason
from binder.model.waiting_pod import waiting_pod
from binder.new_nodes.ahead import PodAhead, left_for_node, pods_ahead
from kube.objects.model import Pod
from kube.rules.duration import age_text
from kube.rules.topology import within
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, claim_object, named, on_pod, place_of, pod_link, volume_link, volume_object
from why.causes.pods.node_verdicts import node_verdicts
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def waiting_for_new_node(facts: Facts, pod: Pod) -> Finding | None:
    """The controller has committed volumes to the pod ahead of its node (binder.new_nodes), and no node fits it.

    What an autoscaler reports about the pod is added by `beside`.
    """
    ahead = _ahead(facts, pod)
    if ahead is None or node_verdicts(facts, pod).any_fits:
        return None
    places = named(dict.fromkeys(within(place_of(volume)) for volume in ahead.volumes))
    names = named(volume.name for volume in ahead.volumes)
    return _finding(
        facts,
        ahead,
        f"{names} {places} was bound for the pod so that an autoscaler adds a node there",
        [(volume_link(volume), volume_object(volume, _record(facts))) for volume in ahead.volumes],
        "a bind is not undone",
    )


def left_for_new_node(facts: Facts, pod: Pod) -> Finding | None:
    """Mode provision has removed the pod's gate so that an autoscaler adds a node for it, and no node fits it.

    What its claims lack then, such as capacity or a node with their driver, is what that node is to bring.
    """
    left = left_for_node(pod, facts.need(Source.CLAIMS), facts.annotations)
    if left is None:
        return None
    facts.need(Source.VOLUMES, Source.CLASSES, Source.NODES)
    if node_verdicts(facts, pod).any_fits:
        return None
    claims = named(claim.name for claim in left.claims)
    return _finding(
        facts,
        left,
        f"The pod's gate was removed so that an autoscaler adds a node for it and {claims}",
        [(claim_link(claim), claim_object(claim, _record(facts))) for claim in left.claims],
        "nothing is bound yet",
    )


def _finding(facts: Facts, ahead: PodAhead, given: str, objects: Sequence[tuple[Link, str]], state: str) -> Finding:
    late = ", longer than its class allows" if ahead.due <= facts.now else ""
    return Finding(
        Reason.WAITING_FOR_NEW_NODE,
        f"{given}; none has come for {age_text(facts.now - ahead.since)}{late}.",
        (pod_link(ahead.pod), *(link for link, _ in objects)),
        tuple(Evidence(name, "", f"since {ahead.since:%FT%TZ}") for _, name in objects),
        (Step(on_pod("describe", ahead.pod), f"shows what the autoscaler reports about the pod; {state}"),),
    )


def _record(facts: Facts) -> str:
    return f"annotation {facts.annotations.awaits_node}"


def _ahead(facts: Facts, pod: Pod) -> PodAhead | None:
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CLASSES, Source.NODES)
    waiting = waiting_pod(snapshot, facts.annotations, pod)
    if waiting is None or not waiting.bound:
        return None
    return next(pods_ahead((waiting,), snapshot.classes, facts.annotations), None)
