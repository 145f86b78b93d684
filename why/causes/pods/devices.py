"""Causes in device claims (dynamic resource allocation)."""

from binder.matching.rejection import Reason
from kube.objects.model import Pod
from kube.plain_text import shell
from why.causes.finding import Finding, Step
from why.causes.objects import pod_link, pod_object
from why.causes.reported import last_words
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def device_claim_missing(facts: Facts, pod: Pod) -> Finding | None:
    """The pod names a ResourceClaim that does not exist (dynamicresources.go)."""
    details = facts.pods.get(pod.key)
    if details is not None and details.unused_templates:
        return _not_created(facts, pod, details.unused_templates[0])
    if details is None or not details.resource_claims:
        return None
    facts.need(Source.DEVICE_CLAIMS)
    for name in details.resource_claims:
        if f"{pod.namespace}/{name}" not in facts.device_claims:
            return Finding(
                Reason.DEVICE_CLAIM_PENDING,
                f'The pod uses ResourceClaim "{name}", which does not exist.',
                (pod_link(pod), Link("ResourceClaim", f"{pod.namespace}/{name}", "not found")),
                (Evidence(pod_object(pod, "spec.resourceClaims"), f"ResourceClaim {name}", "no such claim"),),
                (Step(shell("kubectl -n {} get resourceclaims", pod.namespace)),),
            )
    return None


def _not_created(facts: Facts, pod: Pod, template: str) -> Finding:
    """Kubernetes creates a pod's ResourceClaim from its template (controller.go in pkg/controller/resourceclaim)."""
    return Finding(
        Reason.DEVICE_CLAIM_PENDING,
        f'No ResourceClaim has been created for the pod from ResourceClaimTemplate "{template}" yet.',
        (pod_link(pod), Link("ResourceClaimTemplate", f"{pod.namespace}/{template}", "no claim created")),
        (
            Evidence(pod_object(pod, "status.resourceClaimStatuses"), "the name of a claim", "none"),
            *last_words(facts, "Pod", pod.key),
        ),
        (
            Step(
                shell("kubectl -n {} get resourceclaimtemplate {}", pod.namespace, template), "does the template exist?"
            ),
        ),
    )


def device_claim_pending(facts: Facts, pod: Pod) -> Finding | None:
    """No devices could be allocated for a ResourceClaim of the pod. Its volumes and nodes are checked first."""
    details = facts.pods.get(pod.key)
    if details is None or not details.resource_claims:
        return None
    facts.need(Source.DEVICE_CLAIMS)
    for name in details.resource_claims:
        claim = facts.device_claims.get(f"{pod.namespace}/{name}")
        if claim is not None and not claim.allocated:
            return Finding(
                Reason.DEVICE_CLAIM_PENDING,
                f'No device was allocated for ResourceClaim "{name}" of the pod.',
                (pod_link(pod), Link("ResourceClaim", f"{pod.namespace}/{name}", "not allocated")),
                (
                    Evidence(f"resourceclaim/{pod.namespace}/{name} status.allocation", "devices", "none"),
                    *last_words(facts, "Pod", pod.key),
                ),
                (Step("kubectl get resourceslices", "does any node offer such a device?"),),
            )
    return None
