"""Helm, of every version that is supported."""

import pytest

from tests.manifests.chart.helm import Helm
from tests.manifests.tools import HELM


@pytest.fixture(params=HELM)
def helm(request: pytest.FixtureRequest) -> Helm:
    return Helm(request.param)
