"""Writes the page: `python -m tests.e2e.afternoon IMAGE PAGE` as root.

IMAGE is the archive that `make image` writes, PAGE is docs/afternoon.md.
"""

import asyncio
import sys
from pathlib import Path

from tests.e2e.afternoon.transcript import Differs, recorded


def main(image: Path, page: Path) -> int:
    """Write the page; if something differs, print what was typed and what differs instead."""
    try:
        page.write_text(asyncio.run(recorded(image)), encoding="utf-8")
    except Differs as differs:
        sys.stderr.write(f"{differs.page}\n{differs}\n")
        return 1
    return 0


sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
