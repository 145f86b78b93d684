"""`python -m devcluster.build` builds everything that the demo and the tests need, ahead of time.

`python -m devcluster.build node` builds what a cluster with a real node needs, `python -m devcluster.build sidecars`
one with the sidecars of CSI drivers (`provisioner`: with external-provisioner only), `python -m devcluster.build
autoscaler` one with an autoscaler.
"""

import sys

from devcluster.build.binaries import ensure
from devcluster.build.modules import KARPENTER, KWOK, MOCK_DRIVER, NODE, PROVISIONER, SANITY, SIDECARS, control_plane
from devcluster.errors import ClusterError

_SETS = {
    "": (KWOK, SANITY),
    "node": (*NODE, PROVISIONER),
    "provisioner": (KWOK, PROVISIONER),
    "sidecars": (KWOK, *SIDECARS),
    "autoscaler": (KWOK, KARPENTER),
}


def main() -> int:
    """Build what is missing; return the exit status."""
    try:
        ensure([control_plane(), MOCK_DRIVER, *_SETS["".join(sys.argv[1:])]])
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
