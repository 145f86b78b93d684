"""Causes in the claim itself and its StorageClass."""

import json
from collections.abc import Iterable
from dataclasses import replace

from binder.matching.matching import class_of, default_class, is_mine
from binder.matching.matching import selector_too_large as unread_selector
from binder.matching.rejection import Reason
from kube.configuration.nearest import did_you_mean
from kube.objects.model import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    value_of,
)
from kube.plain_text import shell
from why.causes.finding import Finding, Step
from why.causes.leases import look_for_pv_controller, without_pv_controller
from why.causes.objects import (
    claim_link,
    claim_object,
    class_object,
    fits_some_volume,
    named,
    of_another_class,
    older_than_a_minute,
    on_claim,
    own_volume,
    unannotate,
    users_of,
    with_default_class,
)
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def lost(facts: Facts, claim: Claim) -> Finding | None:
    """The volume of a bound claim is gone (phase Lost: syncBoundClaim in persistentvolume/pv_controller.go)."""
    if claim.bind_completed and not claim.volume_name:
        return _bound_to_nothing(claim)
    if claim.phase != "Lost":
        return None
    return Finding(
        Reason.CLAIM_LOST,
        f"The claim was bound to volume {claim.volume_name}, which is gone or belongs to another claim.",
        (claim_link(claim), Link("PersistentVolume", claim.volume_name, "lost")),
        (Evidence(claim_object(claim, "status.phase"), "Bound", "Lost"),),
        (_restore(facts, claim),),
    )


def _bound_to_nothing(claim: Claim) -> Finding:
    """The claim was created from a manifest of a bound one (`lost reference to PersistentVolume`, syncBoundClaim)."""
    return Finding(
        Reason.CLAIM_LOST,
        "The claim is annotated as bound and names no volume: Kubernetes never looks for one.",
        (claim_link(claim),),
        (Evidence(claim_object(claim, f"annotation {BIND_COMPLETED}"), "not set without spec.volumeName", "set"),),
        (
            Step(
                unannotate(claim, BIND_COMPLETED, BOUND_BY_CONTROLLER),
                "the claim then gets a volume like a new one; remove both annotations from its manifest too",
            ),
        ),
    )


def about_to_be_lost(facts: Facts, claim: Claim) -> Finding | None:
    """The volume of a bound claim does not exist, or names another claim, and the PV controller has not reported it
    yet.

    Source: `bound to non-existent persistentvolume` of the scheduler, and syncBoundClaim in pv_controller.go.
    """
    if not facts.has(Source.VOLUMES):  # The claim itself has to be sufficient.
        return None
    volume = facts.snapshot.volumes.get(claim.volume_name)
    if volume is not None and (volume.claim is None or is_mine(claim, volume)):
        return None
    state = "does not exist" if volume is None else "belongs to another claim"
    return Finding(
        Reason.CLAIM_LOST,
        f"The claim is bound to volume {claim.volume_name}, which {state}.",
        (claim_link(claim), Link("PersistentVolume", claim.volume_name, "not found" if volume is None else "not ours")),
        (Evidence(claim_object(claim, "spec.volumeName"), f"volume {claim.volume_name} of this claim", state),),
        (_restore(facts, claim),),
    )


def _restore(facts: Facts, claim: Claim) -> Step:
    """Return how to recover a lost volume: a PersistentVolume that is created again is bound again."""
    is_gone = facts.has(Source.VOLUMES) and claim.volume_name not in facts.snapshot.volumes
    return Step(
        shell("kubectl get pv {} -o yaml", claim.volume_name) if not is_gone else "kubectl get pv",
        "do not delete the claim before the data is found or restored"
        + (f"; a volume created again as {claim.volume_name} for the same data is bound to it" if is_gone else ""),
    )


def no_storage_class(facts: Facts, claim: Claim) -> Finding | None:
    """No class, no default class, no volume without a class (FailedBinding: syncUnboundClaim in pv_controller.go)."""
    if claim.volume_name or class_of(claim):
        return None
    classes = facts.need(Source.CLASSES).classes
    if claim.storage_class is None and default_class(classes.values()) is not None:
        return None
    if fits_some_volume(facts, claim) or own_volume(facts, claim) is not None:
        return None
    if claim.storage_class is None:
        message = "The claim names no StorageClass, and no class is marked as the default."
        steps = _choose_default(classes, claim)
    else:
        message = 'The claim opted out of classes (storageClassName: ""), and no volume without a class fits.'
        note = "create a volume without a class, or create the claim again with a class: a default is not given to it"
        steps = (Step("kubectl get pv", note),)
    evidence = Evidence(claim_object(claim, "spec.storageClassName"), "a StorageClass", "none")
    others = tuple(of_another_class(facts, claim))
    return Finding(Reason.NO_STORAGE_CLASS, message, (claim_link(claim),), (evidence, *others), steps)


def _choose_default(classes: Iterable[str], claim: Claim) -> tuple[Step, ...]:
    names = sorted(classes)
    mark = "storageclass.kubernetes.io/is-default-class=true"
    if len(names) == 1:
        return (
            Step(
                shell("kubectl annotate storageclass {} {}", names[0], mark),
                "makes it the default: the PV controller gives it to this claim, and to all that name none",
            ),
            _give_class(claim, names[0], "or gives it to this claim alone"),
        )
    note = f"choose one of them and annotate it with {mark}" if names else "there is none: create one"
    return (Step("kubectl get storageclass", note),)


def _give_class(claim: Claim, storage_class: str, note: str) -> Step:
    """Return how to name the class in a claim that names none: allowed once, although a class is immutable otherwise.

    Source: validateStorageClassUpgradeFromNil in pkg/apis/core/validation/validation.go.
    """
    patch = json.dumps({"spec": {"storageClassName": storage_class}}, separators=(",", ":"))
    return Step(shell("kubectl -n {} patch pvc {} --type merge -p {}", claim.namespace, claim.name, patch), note)


def default_class_not_given(facts: Facts, claim: Claim) -> Finding | None:
    """There is a default class, and the PV controller has not given it to a claim that names none (KEP-3333).

    It does so at each resync, every 15 seconds; until then the claim counts as one without a class, for its scheduler
    too (assignDefaultStorageClass in persistentvolume/pv_controller.go).
    """
    if claim.storage_class is not None or claim.volume_name or not older_than_a_minute(facts, claim.created):
        return None
    default = default_class(facts.need(Source.CLASSES).classes.values())
    if default is None or not older_than_a_minute(facts, default.created) or fits_some_volume(facts, claim):
        return None
    name = default.name
    return Finding(
        Reason.NO_STORAGE_CLASS,
        f"The claim names no StorageClass, and the PV controller has not given it the default class {name} yet.",
        (claim_link(claim), Link("StorageClass", name, "the default")),
        (
            Evidence(claim_object(claim, "spec.storageClassName"), f"{name}, within 15 s of its being default", "none"),
            *without_pv_controller(facts),
        ),
        (
            replace(look_for_pv_controller(), note="is the controller manager running? If so, its log says what fails"),
            _give_class(claim, name, "or gives it to this claim by hand"),
        ),
    )


def class_not_found(facts: Facts, claim: Claim) -> Finding | None:
    """The class does not exist (ProvisioningFailed `storageclass.storage.k8s.io "X" not found`, pv_controller.go).

    Static volumes need no object for their class: with a name of theirs the claim is bound at once, or no volume fits.
    """
    name = class_of(claim)
    if not name or claim.volume_name:
        return None
    classes = facts.need(Source.CLASSES).classes
    if name in classes:
        return None
    if own_volume(facts, claim) is not None or fits_some_volume(facts, claim) or facts.has_static_volumes(name):
        return None
    meant = did_you_mean(name, sorted({*classes, *facts.derived.static_classes})).strip(" ;.")
    meant = meant.replace("did you mean", "Did you mean")
    there = named(sorted(classes)) or "none"
    message = f'StorageClass "{name}" does not exist.' + (f" {meant}" if meant else "")
    return Finding(
        Reason.CLASS_NOT_FOUND,
        message,
        (claim_link(claim), Link("StorageClass", name, "not found")),
        (Evidence("storageclasses", name, there), *of_another_class(facts, claim)),
        (
            Step(
                "kubectl get storageclass",
                f"create {name} if it is missing here; a claim's class is immutable, so else create the claim again "
                "with a class that exists",
            ),
        ),
    )


def selector_on_dynamic_class(facts: Facts, claim: Claim) -> Finding | None:
    """External provisioners reject claims with a selector (`claim Selector is not supported`, controller.go)."""
    if claim.selector is None or claim.volume_name:
        return None
    wanted = with_default_class(facts, claim)
    storage_class = facts.need(Source.CLASSES).classes.get(class_of(wanted))
    if storage_class is None or not storage_class.provisions or fits_some_volume(facts, wanted):
        return None
    return Finding(
        Reason.SELECTOR_ON_DYNAMIC_CLASS,
        f"The claim has a selector, and {storage_class.provisioner} does not provision volumes for such claims.",
        (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {storage_class.provisioner}")),
        (Evidence(claim_object(claim, "spec.selector"), "none, or an Available volume that it selects", "a selector"),),
        (
            Step(
                on_claim("delete", claim),
                "the selector is immutable: delete the claim (it has no data yet) and create it without one",
            ),
        ),
    )


def selector_too_large(facts: Facts, claim: Claim) -> Finding | None:
    """A selector that is not read here because of its size: which volumes it selects is not known."""
    unread = unread_selector(claim)
    if unread is None or claim.volume_name or own_volume(facts, claim) is not None:
        return None
    return Finding(
        Reason.SELECTOR_TOO_LARGE,
        f"The claim's selector has {unread.offered}, more than is evaluated: nothing is reserved for it.",
        (claim_link(claim),),
        (Evidence(claim_object(claim, "spec.selector"), unread.wanted, unread.offered),),
        (
            Step(
                on_claim("delete", claim),
                "the selector is immutable: delete the claim (it has no data yet) and create it with a label that its "
                "volumes have in common",
            ),
        ),
    )


def waits_for_first_consumer(facts: Facts, claim: Claim) -> Finding | None:
    """A class that binds late, and no pod uses the claim (WaitForFirstConsumer, pv_controller.go). Normal."""
    if claim.volume_name or value_of(claim.annotations, SELECTED_NODE) is not None:
        return None
    wanted = with_default_class(facts, claim)
    storage_class = facts.need(Source.CLASSES).classes.get(class_of(wanted))
    if storage_class is None or storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return None
    if own_volume(facts, claim) is not None:
        return None
    if any(not pod.deleting for pod in users_of(facts, claim)):
        return None
    return Finding(
        Reason.WAIT_FOR_FIRST_CONSUMER,
        f"Normal: no pod uses the claim yet, and class {storage_class.name} binds on first use.",
        (claim_link(claim), Link("StorageClass", storage_class.name, "WaitForFirstConsumer")),
        (Evidence(class_object(storage_class.name), "", "volumeBindingMode WaitForFirstConsumer"),),
        (),
        problem=False,
    )


def ambiguous_default_class(facts: Facts, claim: Claim) -> Finding | None:
    """Several classes are marked as the default, and the claim names none: the newest is used (storageclass.go)."""
    if claim.storage_class is not None or claim.volume_name:
        return None
    classes = facts.need(Source.CLASSES).classes.values()
    defaults = sorted(storage_class.name for storage_class in classes if storage_class.is_default)
    winner = default_class(classes)
    if len(defaults) < 2 or winner is None:
        return None
    others = [name for name in defaults if name != winner.name]
    return Finding(
        Reason.AMBIGUOUS_DEFAULT_CLASS,
        f"The claim names no class, and {len(defaults)} classes are the default: {winner.name}, the newest, is used.",
        (claim_link(claim), Link("StorageClass", winner.name, "the newest default")),
        (Evidence("storageclasses", "one default", named(defaults)),),
        (
            Step(
                shell("kubectl annotate storageclass {} storageclass.kubernetes.io/is-default-class-", others[0]),
                f"leaves {winner.name} as the default" if len(others) == 1 else "repeat it until one is left",
            ),
        ),
    )
