"""A provisioner that is there, as far as can be told, and does nothing: what its pods show, and where to look."""

from dataclasses import replace

from binder.matching.rejection import Reason
from kube.objects.model import Claim, StorageClass
from kube.rules.csi_migration import driver_of_provisioner
from why.causes.drivers.crashes import broken_sidecar
from why.causes.drivers.logs import PROVISIONER, log_of_sidecar
from why.causes.drivers.workloads import look_for
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link
from why.facts.facts import Facts
from why.report.report import Evidence, Link


def has_pods(facts: Facts, driver: str) -> bool:
    """Whether a pod of the provisioner is known."""
    return log_of_sidecar(facts, driver, PROVISIONER) is not None


def no_answer(facts: Facts, claim: Claim, storage_class: StorageClass, symptom: str) -> Finding:
    """Return that the class's provisioner does not respond: because its pod keeps failing, else with this symptom.

    A pod that runs and does nothing may be no leader, or may lack rights: its log says so, and a restart hides it.
    """
    driver = driver_of_provisioner(storage_class.provisioner)
    links = (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {driver}"))
    absence = Evidence(f"leases and Events of {driver}", "a running provisioner", symptom)
    broken = broken_sidecar(facts, driver, PROVISIONER)
    if broken is not None:
        words, link, shows, step = broken
        message = f"The provisioner of {driver} does not respond: {words}."
        return Finding(Reason.PROVISIONER_MISSING, message, (*links, link), (shows, absence), (step,))
    message = f"The provisioner of {driver} does not respond: {symptom}."
    log = log_of_sidecar(facts, driver, PROVISIONER)
    if log is None:
        step = Step(look_for(driver, "deploy,statefulset"), f"restart the controller of {driver}")
    else:
        note = "see what it waits for, such as rights or its Lease, before it is restarted"
        step = replace(log, note="; ".join(filter(None, (note, log.note))))
    return Finding(Reason.PROVISIONER_MISSING, message, links, (absence,), (step,))
