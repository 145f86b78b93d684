"""Progress lines on standard error: a whole run takes a while."""

import sys
from time import monotonic

_STARTED = monotonic()


def say(text: str) -> None:
    seconds = int(monotonic() - _STARTED)
    print(f"{seconds // 60:3}:{seconds % 60:02}  {text}", file=sys.stderr, flush=True)
