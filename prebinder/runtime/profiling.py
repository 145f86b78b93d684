"""A profile of the running process by pyinstrument, which is imported only when one is taken."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyinstrument import Profiler

INTERVAL_SECONDS: Final = 0.01
MAX_PROFILE_SECONDS: Final = 120
"""The longest profile that can be requested."""
CONTENT_TYPES: Final[Mapping[str, str]] = {
    "text": "text/plain",
    "html": "text/html",
    "speedscope": "application/json",
}
"""Format of a profile -> its content type."""


def profiler() -> "Profiler":
    """Return a profiler that samples the whole thread between its enter and exit, not only one coroutine."""
    from pyinstrument import Profiler  # noqa: PLC0415 - only when a profile is taken

    return Profiler(interval=INTERVAL_SECONDS, async_mode="disabled")


def rendered(profile: "Profiler", form: str) -> str:
    """Return a finished profile in one of the formats of CONTENT_TYPES."""
    from pyinstrument.renderers import SpeedscopeRenderer  # noqa: PLC0415 - as above

    match form:
        case "html":
            return profile.output_html()
        case "speedscope":
            return profile.output(SpeedscopeRenderer()) + "\n"
        case _:
            return profile.output_text(unicode=True, color=False)
