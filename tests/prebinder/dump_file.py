"""A dump as `kubectl get -o json` prints it, for commands that read files."""

import json
from collections.abc import Sequence
from pathlib import Path


def write_dump(directory: Path, documents: Sequence[object]) -> str:
    """Write these objects as one List; return the file's path."""
    path = directory / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(path)
