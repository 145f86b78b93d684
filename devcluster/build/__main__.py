"""`python -m devcluster.build` builds everything that the demo and the tests need, ahead of time.

`python -m devcluster.build node` builds what a cluster with a real node needs.
"""

import sys

from devcluster.build.binaries import CONTROL_PLANE, KWOK, NODE, SANITY, ensure
from devcluster.errors import ClusterError


def main() -> int:
    """Build what is missing; return the exit status."""
    try:
        ensure([CONTROL_PLANE, *NODE] if sys.argv[1:] == ["node"] else [CONTROL_PLANE, KWOK, SANITY])
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
