"""The node chosen for a volume is outside the allowedTopologies of its class for the provisioner, not the scheduler."""

import json

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, Claim, StorageClass, value_of
from kube.plain_text import shell
from kube.rules.selectors import label_keys
from why.causes.claims.provisioning import driver_of, provisioner_of
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, named, on_claim, unannotate
from why.causes.reported import provisioner_failure, quoted
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def chosen_node_not_allowed(facts: Facts, claim: Claim) -> Finding | None:
    """The provisioner reports that the node chosen for the volume is outside the class's allowedTopologies.

    kube-scheduler compares them with all labels of a node, external-provisioner only with those that are topology keys
    of the driver there: a key that is none of them is never satisfied (GenerateAccessibilityRequirements in
    topology.go). It asks for no volume then, and leaves the chosen node as it is, so nothing changes by itself.
    """
    failure = provisioner_failure(facts, claim)
    selected = value_of(claim.annotations, SELECTED_NODE)
    if failure is None or failure.code is not Reason.TOPOLOGY_NOT_ALLOWED or selected is None:
        return None
    storage_class = provisioner_of(facts, claim)
    if storage_class is None or storage_class.allowed_topologies is None:
        return None
    keys = label_keys(storage_class.allowed_topologies)
    registered = _topology_keys(facts, selected, driver_of(storage_class))
    unknown = [key for key in keys if key not in registered]
    links = (
        claim_link(claim),
        Link("StorageClass", storage_class.name, "allowedTopologies"),
        Link("Node", selected, "chosen for the volume"),
    )
    if not unknown:
        message = f"Node {selected}, chosen for the volume, is outside the allowedTopologies of {storage_class.name}."
        steps = _choose_again(claim, keys)
        return Finding(Reason.TOPOLOGY_NOT_ALLOWED, message, links, (quoted(facts, failure.event),), steps)
    return Finding(
        Reason.TOPOLOGY_NOT_ALLOWED,
        f"Class {storage_class.name} allows topologies by {named(unknown)}, which is no topology key of its driver.",
        links,
        (
            Evidence(f"csinode/{selected} topologyKeys", named(unknown), named(registered) or "none"),
            quoted(facts, failure.event),
        ),
        _other_keys(claim, storage_class, selected),
    )


def _topology_keys(facts: Facts, node: str, driver: str) -> tuple[str, ...]:
    csi_node = facts.need(Source.CSI_NODES).csi_nodes.get(node)
    drivers = () if csi_node is None else csi_node.drivers
    return next((each.topology_keys for each in drivers if each.name == driver), ())


def _choose_again(claim: Claim, keys: tuple[str, ...]) -> tuple[Step, ...]:
    return (
        Step(shell("kubectl get nodes -L {}", ",".join(keys)), "correct the labels of the node if they are wrong"),
        Step(
            unannotate(claim, SELECTED_NODE),
            "lets the scheduler choose a node again; check first that the driver has no volume for the claim",
        ),
    )


def _other_keys(claim: Claim, storage_class: StorageClass, node: str) -> tuple[Step, ...]:
    of_driver = f"{{.spec.drivers[?(@.name=={json.dumps(driver_of(storage_class))})].topologyKeys}}"
    return (
        Step(
            shell("kubectl get csinode {} -o jsonpath={}", node, of_driver),
            "create a class with these keys in allowedTopologies: they are immutable",
        ),
        Step(
            on_claim("delete", claim),
            "a claim's class is immutable: delete this claim (it has no data yet) and create it with the new class",
        ),
    )
