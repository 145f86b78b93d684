"""Makes the stubs of csi_v1.proto again: `python -m csi.proto.regenerate`, from the root of the repository.

The stubs need at least the grpcio and protobuf that grpcio-tools was built with; pyproject.toml pins all three.
"""

import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
PROTO = "csi/proto/csi_v1.proto"
WELL_KNOWN = resources.files("grpc_tools") / "_proto"
STUBS = ROOT / "csi/proto/csi_v1_pb2_grpc.py"

PRIVATE_PACKAGE = "pvc_prebinder.csi.v1."
PUBLIC_PACKAGE = "csi.v1."
"""The package whose service names drivers answer to; the private one only keeps message names apart."""


def main() -> int:
    """Run protoc, then give the services their public names. Returns protoc's exit code."""
    outputs = [f"--{kind}_out={ROOT}" for kind in ("python", "pyi", "grpc_python")]
    code = int(protoc.main(["protoc", f"-I{ROOT}", f"-I{WELL_KNOWN}", *outputs, PROTO]))
    if code == 0:
        STUBS.write_text(STUBS.read_text().replace(PRIVATE_PACKAGE, PUBLIC_PACKAGE))
    return code


if __name__ == "__main__":
    sys.exit(main())
