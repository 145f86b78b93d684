"""`python -m devcluster.build` builds everything that the demo and the tests need, ahead of time.

`python -m devcluster.build node` builds what a cluster with a real node needs.
"""

import sys

from devcluster.build.binaries import ensure
from devcluster.build.modules import KWOK, MOCK_DRIVER, NODE, SANITY, control_plane
from devcluster.errors import ClusterError


def main() -> int:
    """Build what is missing; return the exit status."""
    try:
        others = NODE if sys.argv[1:] == ["node"] else (KWOK, SANITY)
        ensure([control_plane(), MOCK_DRIVER, *others])
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
