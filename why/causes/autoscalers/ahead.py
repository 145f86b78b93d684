"""A pod whose volumes were bound so that an autoscaler adds a node where they are, and that has none yet."""

from binder.matching.rejection import Reason
from binder.model.waiting_pod import waiting_pod
from binder.new_nodes.ahead import PodAhead, pods_ahead
from kube.objects.model import Pod
from kube.rules.duration import age_text
from kube.rules.topology import within
from why.causes.finding import Finding, Step
from why.causes.objects import named, on_pod, place_of, pod_link, volume_link, volume_object
from why.causes.pods.node_verdicts import node_verdicts
from why.facts.facts import Facts, Source
from why.report.report import Evidence


def waiting_for_new_node(facts: Facts, pod: Pod) -> Finding | None:
    """The controller has committed volumes to the pod ahead of its node (binder.new_nodes), and no node fits it.

    What an autoscaler reports about the pod is added by `beside`.
    """
    ahead = _ahead(facts, pod)
    if ahead is None or node_verdicts(facts, pod).any_fits:
        return None
    places = named(dict.fromkeys(within(place_of(volume)) for volume in ahead.volumes))
    names = named(volume.name for volume in ahead.volumes)
    waits = age_text(facts.now - ahead.since)
    noted = f"annotation {facts.annotations.awaits_node}"
    late = ", longer than its class allows" if ahead.due <= facts.now else ""
    return Finding(
        Reason.WAITING_FOR_NEW_NODE,
        f"{names} {places} was bound for the pod so that an autoscaler adds a node there; none has come for "
        f"{waits}{late}.",
        (pod_link(pod), *map(volume_link, ahead.volumes)),
        tuple(Evidence(volume_object(volume, noted), "", f"since {ahead.since:%FT%TZ}") for volume in ahead.volumes),
        (Step(on_pod("describe", pod), "shows what the autoscaler reports about the pod; a bind is not undone"),),
    )


def _ahead(facts: Facts, pod: Pod) -> PodAhead | None:
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CLASSES, Source.NODES)
    waiting = waiting_pod(snapshot, facts.annotations, pod)
    if waiting is None or not waiting.bound:
        return None
    return next(pods_ahead((waiting,), snapshot.classes, facts.annotations), None)
