"""Feature gates: their form, what is said of a wrong one, and that each switches its part off."""

import click
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from binder.model.decision import Mode
from binder.planning.claim_standing import mode_of
from kube.configuration.document import ConfigurationError
from prebinder.command_line.flags import FLAGS, settings_from
from prebinder.config.config_file import CONTROLLER
from prebinder.config.feature_gates import FeatureGates, parse_gates
from prebinder.config.settings import HoldSettings, Settings
from prebinder.controller.term import plan_settings
from prebinder.metrics.process import report_gates
from tests.builders import storage_class

FILE = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: ControllerConfiguration\nfeatureGates:\n"


def test_each_pair_sets_one_gate() -> None:
    assert parse_gates("Holds=false,NewNodes=True") == {"holds": False, "new_nodes": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hold=true", 'unknown feature gate "Hold"; did you mean "Holds"?'),
        ("Rebalance=true", 'unknown feature gate "Rebalance"; expected Scheduler, Provision, Holds, NewNodes'),
        ("Holds", 'Holds must be true or false, is ""'),
        ("Holds=yes", 'Holds must be true or false, is "yes"'),
    ],
)
def test_a_wrong_pair_is_rejected_with_what_was_meant(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r"^unknown|^Holds") as raised:
        parse_gates(text)
    assert str(raised.value) == expected


def test_a_flag_changes_only_the_gates_that_it_names() -> None:
    defaults = CONTROLLER.parse(f"{FILE}  Provision: false\n")
    settings = settings_from(defaults, FLAGS, ["--feature-gates=Holds=false"])
    assert settings.feature_gates == FeatureGates(provision=False, holds=False)


def test_an_unknown_gate_of_a_file_is_rejected_with_what_was_meant() -> None:
    with pytest.raises(
        ConfigurationError, match=r'featureGates.NewNode: unknown key; did you mean "NewNodes"\? \(line 4'
    ):
        CONTROLLER.parse(f"{FILE}  NewNode: false\n")
    with pytest.raises(click.BadParameter, match="did you mean"):
        settings_from(Settings(), FLAGS, ["--feature-gates=NewNode=false"])


def test_without_its_gate_no_class_is_in_mode_provision() -> None:
    dynamic = storage_class(provisioner="disk.csi.example", annotations={"scheduler.cloud.example/mode": "provision"})
    on, off = Settings(), Settings(feature_gates=FeatureGates(provision=False))
    assert mode_of(dynamic, plan_settings(on)) is Mode.PROVISION
    assert mode_of(dynamic, plan_settings(off)) is Mode.ANNOTATE


def test_without_its_gate_no_volume_is_held() -> None:
    holding = HoldSettings(enabled=True)
    assert Settings(holds=holding).holds_volumes
    assert not Settings(holds=holding, feature_gates=FeatureGates(holds=False)).holds_volumes


def test_the_metric_is_the_one_of_kubernetes() -> None:
    registry = CollectorRegistry()
    report_gates(registry, FeatureGates(new_nodes=False))
    page = generate_latest(registry).decode()
    assert 'kubernetes_feature_enabled{name="NewNodes",stage="ALPHA"} 0.0' in page
    assert 'kubernetes_feature_enabled{name="Holds",stage="ALPHA"} 1.0' in page
