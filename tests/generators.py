"""The programs beside what they write, such as docs/generate_reference.py: imported by their paths."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def generator(path: Path) -> ModuleType:
    """Return the program as a module."""
    spec = spec_from_file_location(f"generator_of_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
