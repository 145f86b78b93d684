"""What is said of a volume whose claim was deleted."""

from dataclasses import replace

import pytest

from prebinder.why.answering import report_on
from prebinder.why.targets import parse_target
from tests.prebinder.why.documents import NAMESPACE, facts_of, volume


@pytest.mark.parametrize(
    ("namespace", "owner"), [(NAMESPACE, "claim web/data, which"), ("other", "a claim of another namespace, which")]
)
def test_a_deleted_claim_is_named_to_users_of_its_namespace(namespace: str, owner: str) -> None:
    facts = replace(facts_of(volume(claim="data", phase="Released")), namespace=namespace)
    (item,) = report_on(facts, (parse_target("pv/pv-1"),), namespace).items
    assert f"it holds the data of {owner} was deleted" in item.message
