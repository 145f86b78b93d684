"""Writes what of the Helm charts follows from manifests/base and its components, so that all install the same.

`python manifests/chart/generate.py` writes the templates, into the schema of the values those of the configuration
files, and the table of values; a test fails if one of them is outdated.
"""

import sys
from pathlib import Path
from typing import Final

from manifests.chart_generator.documents import Command
from manifests.chart_generator.templates import templates
from manifests.chart_generator.values import schema, table

CHART: Final = Path(__file__).parent


def files(kustomize: Command) -> dict[Path, str]:
    """Return the content of every file that is generated."""
    made = {CHART / "templates" / name: text for name, text in templates(kustomize).items()}
    return made | {CHART / "values.schema.json": schema(CHART), CHART / "README.md": table(CHART)}


if __name__ == "__main__":
    for path, content in files(sys.argv[1:] or ["kubectl", "kustomize"]).items():
        path.write_text(content, encoding="utf-8")
