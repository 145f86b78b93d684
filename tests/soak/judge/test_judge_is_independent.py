"""The judge knows nothing of what it judges. import-linter holds the same; this names the place."""

import ast
import sys
from pathlib import Path

import pytest

import soak.judge

MODULES = sorted(Path(soak.judge.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_imports_nothing_but_the_standard_library_and_the_judge(module: Path) -> None:
    imported = set()
    for each in ast.walk(ast.parse(module.read_text())):
        if isinstance(each, ast.Import):
            imported |= {name.name for name in each.names}
        elif isinstance(each, ast.ImportFrom):
            imported.add(each.module or "")
    foreign = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("soak.judge")} == set()
