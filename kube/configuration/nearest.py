"""The known word nearest to a mistyped one."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that the user most likely meant, None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - loaded for a mistake only: all commands import this module

    matches = get_close_matches(word.lower(), {name.lower(): name for name in known}, n=1, cutoff=0.6)
    return next((name for name in known if name.lower() == matches[0]), None) if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: `; did you mean "..."?`, or a full stop."""
    best = nearest(word, tuple(known))
    return f'; did you mean "{best}"?' if best else "."
