"""Rewrites objects of the API on their way to a client: in answers, in items of lists and in events of watches."""

import json
from collections.abc import Callable
from typing import Any

Rewrite = Callable[[dict[str, Any]], dict[str, Any] | None]


def distorted_answer(rewrite: Rewrite, body: bytes) -> bytes:
    """Rewrite the object of an answer, or each item of its list. A single object cannot be hidden, only rewritten."""
    document = json.loads(body)
    if "items" in document:
        seen = map(rewrite, document["items"] or ())
        document["items"] = [item for item in seen if item is not None]
        return json.dumps(document).encode()
    return json.dumps(rewrite(document) or document).encode()


def distorted_event(rewrite: Rewrite, line: bytes) -> bytes:
    """Rewrite one line of a watch; empty if the event is not to be seen. Bookmarks and errors pass."""
    event = json.loads(line)
    if event["type"] in {"BOOKMARK", "ERROR"}:
        return line
    seen = rewrite(event["object"])
    return b"" if seen is None else json.dumps(event | {"object": seen}).encode() + b"\n"
