"""PodDisruptionBudgets as records."""

from kube.decoding import wire
from kube.decoding.decode_parts import identity, label_selector
from kube.rules.disruption import DisruptionBudget


def disruption_budget(budget: wire.PodDisruptionBudget) -> DisruptionBudget:
    """Read a budget. What its controller has not looked at since the spec changed allows nothing."""
    who = identity(budget.metadata)
    spec, status = budget.spec or wire.BudgetSpec(), budget.status or wire.BudgetStatus()
    generation = budget.metadata.generation if budget.metadata is not None else None
    is_current = (status.observed_generation or 0) >= (generation or 0)
    return DisruptionBudget(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        selector=label_selector(spec.selector, "$.spec.selector"),
        allowed=max(status.disruptions_allowed or 0, 0) if is_current else 0,
    )
