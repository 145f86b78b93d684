"""The words of Events about holds, which `why` reads again: reasons, and replicas by their ordinals. Pure."""

from typing import Final

HELD: Final = "VolumesHeld"
NOT_HELD: Final = "VolumesNotHeld"


def ordinals_text(ordinals: list[int]) -> str:
    """Return ordinals in words: `replica 3`, or `replicas 3-5, 7`."""
    runs: list[tuple[int, int]] = []
    for ordinal in ordinals:
        if runs and runs[-1][1] + 1 == ordinal:
            runs[-1] = (runs[-1][0], ordinal)
        else:
            runs.append((ordinal, ordinal))
    words = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"replica{'s' if len(ordinals) != 1 else ''} {words}"
