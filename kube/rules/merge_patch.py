"""JSON merge patches (RFC 7396), as the API server applies them to content type application/merge-patch+json."""

from collections.abc import Mapping
from typing import Any


def merge_patched(target: Any, patch: Any) -> Any:
    """Return the target after the patch: null removes a field, a list replaces the whole list. Changes neither."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result
