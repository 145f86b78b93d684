"""Process 1 of a real node: sets up its namespaces, starts its programs and ends when the first of them ends.

It is started by unshare(1) in mount, network and process namespaces of its own, with nothing but the standard library.
`python inside.py run PLAN` reads a JSON file: see `files.plan`. `rehearse` arranges the same, starts nothing and ends.

The machine's file system is visible as it is, except for three places. /run is new, as after a boot. Writes to /var go
to the node's directory, because the container runtime and the kubelet have paths there that cannot be configured. The
node's directory itself stays visible, wherever it is.
"""

import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CGROUPS = Path("/sys/fs/cgroup")
_SOCKET_SECONDS = 60.0
_POLL_SECONDS = 0.05

# From the kernel's sockios.h and if.h.
_SET_FLAGS, _SET_ADDRESS, _SET_NETMASK = 0x8914, 0x8916, 0x891C
_UP = 1


def run(plan: Mapping[str, Any]) -> int:
    """Run the node until one of its programs ends; returns 1."""
    directory = Path(plan["directory"])
    arrange(plan)
    children = {_started("containerd", plan["containerd"], directory): "containerd"}
    _wait_for_socket(plan["socket"])
    children[_started("relay-inside", plan["relay"], directory)] = "relay"
    children[_started("kubelet", plan["kubelet"], directory)] = "kubelet"
    while True:
        # As process 1 this also reaps orphaned processes of containers.
        pid, status = os.wait()
        if pid in children:
            sys.stderr.write(f"{children[pid]} ended with exit code {os.waitstatus_to_exitcode(status)}\n")
            return 1


def arrange(plan: Mapping[str, Any]) -> int:
    """Set up mounts, network and cgroups of the node; exits with the system's complaint, or returns 0."""
    try:
        _arrange_mounts(Path(plan["directory"]), plan["state"])
        _arrange_network(plan["addresses"])
        _make_cgroups(plan["cgroup"])
    except OSError as error:
        sys.exit(str(error))
    return 0


def _arrange_mounts(directory: Path, state: Mapping[str, str]) -> None:
    """Mount what only this node sees. `state` is the content of its directory, by mount point."""
    # A volume that a driver mounts in its pod has to appear in the other pods.
    _mount("--make-rshared", "/")
    _mount("-t", "tmpfs", "tmpfs", "/run")
    kept = Path("/run/node-directory")
    kept.mkdir()
    _mount("--bind", str(directory), str(kept))
    upper, work = kept / "var", kept / "var.work"
    for each in (upper, work):
        each.mkdir(exist_ok=True)
    # Volatile: unmounting does not wait for the disk. The mark that a power cut leaves would make it reject the mount.
    shutil.rmtree(work / "work" / "incompat", ignore_errors=True)
    layers = f"volatile,lowerdir=/var,upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", layers, "/var")
    directory.mkdir(parents=True, exist_ok=True)
    _mount("--bind", str(kept), str(directory))
    for path, name in state.items():
        (directory / name).mkdir(exist_ok=True)
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount("--bind", str(directory / name), path)


def _arrange_network(addresses: Sequence[str]) -> None:
    """Assign the node's addresses. There is no route outside: the only interface besides those of the pods is
    loopback.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
        for number, address in enumerate(addresses):
            _set(control, _SET_ADDRESS, f"lo:{number}", address)
            _set(control, _SET_NETMASK, f"lo:{number}", "255.255.255.255")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")


def _set(control: socket.socket, request: int, interface: str, address: str) -> None:
    """Set an address of an interface, as ifconfig(8) does."""
    packed = struct.pack("16sH2x4s16x", interface.encode(), socket.AF_INET, socket.inet_aton(address))
    fcntl.ioctl(control, request, packed)


def _make_cgroups(name: str) -> None:
    """Create the group that all pods are in: one for each controller in version 1, a single one in version 2."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    for hierarchy in [CGROUPS] if unified else [path for path in CGROUPS.iterdir() if not path.is_symlink()]:
        (hierarchy / name).mkdir(exist_ok=True)


def _started(name: str, command: Sequence[str], directory: Path) -> int:
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    return process.pid


def _wait_for_socket(path: str) -> None:
    deadline = time.monotonic() + _SOCKET_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return
    raise TimeoutError(f"no process listens on {path} after {_SOCKET_SECONDS:.0f} s")


def _mount(*arguments: str) -> None:
    result = subprocess.run(("mount", *arguments), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"mount {' '.join(arguments)}: {result.stderr.strip()}")


if __name__ == "__main__":
    sys.exit({"run": run, "rehearse": arrange}[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
