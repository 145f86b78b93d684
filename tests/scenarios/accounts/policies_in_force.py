"""Waits until the API server evaluates policies: it reads them some time after they are stored, in their order."""

from functools import partial
from itertools import count
from typing import Final

import yaml

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin, Rejected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.processes.controller import SYSTEM

_GROUP: Final = "admissionregistration.k8s.io/v1"
_numbers: Final = count(1)


async def policies_in_force(cluster: DevCluster, admin: Admin) -> None:
    """Return when all policies that are stored now are evaluated: one that is stored after them is."""
    name = f"last-policy-{next(_numbers)}"
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["leases"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "name", "expression": f"object.metadata.name == '{name}'"}],
        "validations": [{"expression": "false"}],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    documents = [
        {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": name}, "spec": content}
        for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", bound))
    ]
    await cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(documents))
    await eventually(partial(_is_rejected, admin, name), bool, "policies are in force")


async def _is_rejected(admin: Admin, name: str) -> bool:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    try:
        await admin.create(lease | {"metadata": {"name": name, "namespace": SYSTEM}})
    except Rejected:
        return True
    await admin.delete("Lease", name, SYSTEM)
    return False
