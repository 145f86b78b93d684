"""Types the README's first afternoon on a real node, from an empty folder, and writes the transcript.

Each step has the words that its output must contain, so a page is written only if everything worked.
"""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

from devcluster.build import binaries
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from tests.manifests.tools import HELM, binary

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "afternoon.md"
SOURCE: Final = "https://git.example.com/platform/pvc-prebinder"
DISKS: Final = ("/mnt/data", "/mnt/log")
"""What the volumes of the example are on their node."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
ZONE_OF_EXAMPLE: Final = "zone-b"
"""In which the example has a volume for each claim."""
KEPT: Final = re.compile(r"HOME|LANG|PIP_.*|SSL_CERT_.*|.*_CA_BUNDLE|.*_PROXY", re.IGNORECASE)
"""Variables by which pip reaches its index."""
END: Final = "-- end of "
WINDOW: Final = (40, 120)
"""Rows and columns of the terminal."""
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What makes text bold on a terminal; colours are off."""
PATIENCE: Final = 240.0
"""Seconds in which what takes a moment is there, on a machine that is busy."""
INTRODUCTION: Final = """\
# The first afternoon, as it was typed

The commands of the [README](../README.md) and the [quick start](quickstart.md), typed in an empty folder against a
cluster with one real node: kubelet, containerd, runc, and no registry. Written by
`python -m tests.e2e.afternoon IMAGE PAGE`, which fails unless each answer is what it should be; `make e2e` types it
again. Left out is only the loading of the image ([for clusters without a registry](install.md#the-image)).
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, the regular expression that its output contains, and its exit code.

    It `looks` at what takes a moment: while the answer is another one, it is typed again.
    """

    command: str
    answer: str = ""
    exit_code: int = 0
    looks: bool = False


STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    "Get it": (
        Step(f"git clone --quiet {SOURCE} && cd pvc-prebinder"),
        Step("python3 -m venv .venv && . .venv/bin/activate"),
        Step("pip install --quiet ."),
    ),
    "A pod that waits": (
        Step("kubectl apply -f docs/examples/quickstart.yaml", "statefulset.apps/db created"),
        Step("kubectl pvc-why -A", r"SchedulingGated +- +2 ", exit_code=3, looks=True),
        Step("kubectl pvc-why explain SchedulingGated | head -n 8", "SchedulingGated"),
    ),
    "Would the controller help?": (
        Step("pvc-prebinder doctor", "StorageClass"),
        Step("pvc-prebinder controller --dry-run --once", "would bind quickstart/db-0 in zone-b"),
    ),
    "Install": (
        Step(
            "helm install pvc-prebinder manifests/chart --namespace pvc-prebinder-system --create-namespace \\\n"
            "  --set schedulingGate.enabled=true --set complete.enabled=true",
            "STATUS: deployed",
        ),
        Step("pvc-prebinder doctor --wait 2m", "2 of 2 pods ready", looks=True),
    ),
    "See": (
        Step("kubectl -n quickstart wait --for=condition=Ready pod/db-0 --timeout=2m", "condition met", looks=True),
        Step(
            "kubectl get events -A --field-selector reason=VolumeBound",
            "quickstart-b-data to claim data-db-0",
            looks=True,
        ),
        Step("kubectl pvc-why -A", "Nothing is pending", looks=True),
        Step("pvc-prebinder reservations list", "Nothing is reserved", looks=True),
    ),
    "Ask for more than there is": (
        Step("kubectl -n quickstart scale statefulset db --replicas=2", "scaled"),
        Step("kubectl pvc-why sts/db -n quickstart", "Event NoJointAssignment of", exit_code=3, looks=True),
    ),
    "Remove every trace": (
        Step("kubectl -n pvc-prebinder-system scale deployment --all --replicas=0", "scaled"),
        Step(
            "kubectl -n pvc-prebinder-system wait --for=delete pod -l app.kubernetes.io/part-of=pvc-prebinder"
            " --timeout=2m"
        ),
        Step("pvc-prebinder uninstall", "db-1: scheduling gate removed"),
        Step("helm uninstall pvc-prebinder --namespace pvc-prebinder-system", "uninstalled"),
    ),
}


VARYING: Final = (
    (re.compile(r"^(\d{4}-\d\d-\d\dT|LAST DEPLOYED: ).*", re.MULTILINE), ""),
    (re.compile(r"\bpvc-prebinder-[a-z0-9]+-[a-z0-9]{5}\b"), "POD"),
    (re.compile(r"\b(\d+[smhd])+\b"), "AGE"),
    (re.compile(r"v\d+\.\d+\.\d+"), "VERSION"),
    (re.compile(r"─+"), ""),
)
"""What differs from day to day: log lines and dates, names of pods, ages, versions, and how wide a table is."""


def form(text: str) -> str:
    """Return the text without what varies, in one line."""
    for pattern, stands_for in VARYING:
        text = pattern.sub(stands_for, text)
    return " ".join(text.split())


def answers(page: str) -> list[str]:
    """Return what each step has printed, in their order. Raises ValueError if they are not on the page."""
    texts: list[str] = []
    for title, steps in STEPS.items():
        start = page.index(f"\n## {title}\n\n```\n")
        rest = page[start : page.index("\n```\n", start + len(title) + 10)] + "\n"
        places = [rest.index(f"$ {step.command}\n") for step in steps]
        for step, place, end in zip(steps, places, [*places[1:], len(rest)], strict=True):
            texts.append(rest[place + len(step.command) + 3 : end].rstrip())
    return texts


class Differs(Exception):
    """Steps did not end as they should; the message has their output, `page` what was typed all the same."""

    def __init__(self, problems: Sequence[str], page: str) -> None:
        super().__init__("\n\n".join(problems))
        self.page = page


class Shell:
    """A shell in a terminal, in which one command is typed after the other."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", *WINDOW, 0, 0))
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=its,
            stderr=its,
            text=True,
        )
        os.close(its)
        self._screen = os.fdopen(ours, encoding="utf-8")
        self.problems: list[str] = []

    def type(self, step: Step) -> str:
        """Return what the command printed; if that is not as the step says, it is one of the problems."""
        deadline = monotonic() + (PATIENCE if step.looks else 0)
        while True:
            output, code = self._typed(step.command)
            if code == step.exit_code and re.search(step.answer, output):
                return output
            if monotonic() >= deadline:
                expected = f"exit code {code}, expected {step.exit_code}: {step.answer}"
                self.problems.append(f"$ {step.command}\n{output}\n{expected}")
                return output
            sleep(1)

    def _typed(self, command: str) -> tuple[str, int]:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{END}%d\\n' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._screen:
            if line.startswith(END):
                break
            lines.append(CONTROL.sub("", line).rstrip())
        return "\n".join(lines).strip("\n"), int(line.removeprefix(END))

    def close(self) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.kill()
        self._bash.wait()
        self._screen.close()


def transcript(cluster: DevCluster) -> str:
    """Type everything; return the page. The image is loaded. Raises Differs."""
    with TemporaryDirectory() as folder, disks():
        shell = Shell(Path(folder), environment_for(cluster, Path(folder)))
        try:
            sections = [_section(title, steps, shell) for title, steps in STEPS.items()]
        finally:
            shell.close()
        text = "".join(sections).replace(folder, "~/afternoon")
    page = INTRODUCTION + re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:6443", text)
    if shell.problems:
        raise Differs(shell.problems, page)
    return page


def _section(title: str, steps: tuple[Step, ...], shell: Shell) -> str:
    typed = [f"$ {step.command}\n{output}".rstrip() for step in steps for output in [shell.type(step)]]
    return f"\n## {title}\n\n```\n" + "\n".join(typed) + "\n```\n"


@contextmanager
def disks() -> Iterator[None]:
    """The directories that the example's volumes are, as long as they are needed."""
    made = [Path(disk) for disk in DISKS if not Path(disk).exists()]
    for path in made:
        path.mkdir(parents=True)
    try:
        yield
    finally:
        for path in made:
            path.rmdir()


def environment_for(cluster: DevCluster, folder: Path) -> dict[str, str]:
    """Return the environment of a user with kubectl, helm and a kubeconfig, who clones this tree."""
    programs = folder / ".programs"
    programs.mkdir()
    for name, path in (("kubectl", cluster.kubectl), ("helm", binary(HELM["helm-4"], "helm-4"))):
        (programs / name).symlink_to(path)
    python = programs / "python3"
    interpreter = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    python.write_text(f'#!/bin/sh\nexec {interpreter} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    git = programs / "gitconfig"
    git.write_text(f'[url "{ROOT}"]\n\tinsteadOf = {SOURCE}\n[safe]\n\tdirectory = *\n', encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    return {
        **kept,
        "GIT_CONFIG_GLOBAL": str(git),
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "KUBECONFIG": str(cluster.kubeconfig),
        "TERM": "xterm",
        "NO_COLOR": "1",
    }


async def recorded(image: Path) -> str:
    """Start a cluster with a real node, type everything there, and return the page."""
    binaries.ensure([HELM["helm-4"]])
    cluster = DevCluster(Options(kwok=False, real_node=True))
    await cluster.start()
    try:
        await cluster.node.load(image)
        await cluster.run_kubectl("label", "node", "--all", "--overwrite", f"{ZONE_LABEL}={ZONE_OF_EXAMPLE}")
        return await asyncio.to_thread(transcript, cluster)
    finally:
        await cluster.stop()
