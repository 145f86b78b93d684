"""The command `pvc-prebinder demo`: the whole story on a real control plane, in a minute or two."""

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import which
from typing import Final

import cloup
import msgspec
from rich.console import Console

from demo import scene as demo_scene
from demo.backstage import Backstage
from demo.documents import Document
from demo.opening import play_opening, save_alone
from demo.outage import play_outage
from demo.placement import placements, play_placement, rejected
from demo.show import NotInTimeError, Show, print_lines
from demo.stage import Ready, options
from demo.summary import in_the_browser, looking_around, outage, rejections, summary
from demo.view import Row, save_picture
from demo.watch import Watcher, watching
from devcluster.build import binaries
from devcluster.cluster import modules
from devcluster.errors import ClusterError
from devcluster.processes.state import new_directory
from kube.client.api import KubeApi
from kube.client.reflector import ObjectHead
from kube.errors import Conflict, KubeError
from kube.objects.api_resource import CLAIMS, NAMESPACES, PODS, STORAGE_CLASSES, VOLUMES, Resource
from prebinder.command_line.command import Command
from prebinder.command_line.parameters import Reading
from prebinder.errors import UsageError

_EXIT_INTERRUPTED: Final = 130
_STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
_BY_KIND: Final = {
    resource.kind: resource for resource in (NAMESPACES, STORAGE_CLASSES, VOLUMES, CLAIMS, PODS, _STATEFUL_SETS)
}
_HEAD: Final = msgspec.json.Decoder(ObjectHead)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f'expected a number of seconds, more than 0, found "{text}"')
    return seconds


@cloup.command("demo", cls=Command, examples="\nExit codes:\n  0 success   1 error   2 usage   130 interrupted\n")
@cloup.option("--keep", is_flag=True, help="leave the cluster up afterwards, and print how to use it")
@cloup.option(
    "--timeout",
    type=Reading("seconds", _seconds),
    default=120.0,
    metavar="SECONDS",
    help="give up after this long, default 120",
)
@cloup.option(
    "--svg",
    "picture",
    type=cloup.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="also save the result as a picture, and beside it FILE-alone: what Kubernetes alone would choose",
)
def command(keep: bool, timeout: float, picture: Path | None) -> int:
    """Shows on a real local control plane how pods get their volumes.

    Starts a control plane with 6 nodes in 3 zones and a CSI driver whose volumes are directories, runs the controller,
    and creates pods whose claims need healthy volumes in the same zone. Then a volume becomes unhealthy, is withheld
    from pending pods, recovers, and is used again. Last, the same StatefulSets are placed by plain kube-scheduler and
    by `pvc-prebinder scheduler`, side by side.

    The first run builds Kubernetes from source, which takes several minutes, and shows meanwhile what Kubernetes alone
    would choose; later runs take about a minute.
    """
    console = Console(highlight=False)
    if picture and not picture.parent.is_dir():
        raise UsageError(f"--svg: there is no directory {picture.parent}")
    try:
        cache, needed = binaries.cache_directory(), modules(options(kubectl=keep))
        if binaries.has_to_build(needed, cache):
            play_opening(console, cache / "demo-objects.json", _program())
        binaries.ensure(needed)
        return asyncio.run(_demo(console, keep, timeout, picture))
    except ClusterError as error:
        sys.stderr.write(f"pvc-prebinder: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; the cluster was removed.\n")
        return _EXIT_INTERRUPTED


async def _demo(console: Console, keep: bool, timeout: float, picture: Path | None) -> int:
    directory = new_directory()
    late: NotInTimeError | None = None
    async with Backstage(directory, kubectl=keep) as backstage:
        ready = await backstage.ready(lambda doing: print_lines(console, [f"- {doing}"]))
        async with watching(ready.kubeconfig, ready.csi_endpoint) as watcher:
            with Show(console, watcher.look, watcher.clock, timeout) as show:
                try:
                    await _play(show, watcher, ready, directory)
                except NotInTimeError as error:
                    late = error
            await watcher.ask_about(list(watcher.snapshot.volumes.values()))
            console.print()
            compared = list(placements(watcher.snapshot, await rejected(watcher)))
            claims = [row for row in show.rows if row.claim]
            print_lines(console, summary(claims, watcher.snapshot, watcher.verdicts))
            print_lines(console, [*outage(show.diary), *compared])
            print_lines(console, rejections(claims, watcher.rejections))
            if picture:
                save_picture(picture, claims, [*outage(show.diary), *compared])
                save_alone(picture.with_stem(f"{picture.stem}-alone"))
        if late:
            console.print(f"\nNot finished within {timeout:.0f} s: still waiting for {late}.", style="red")
            for log in (ready.controller_log, ready.scheduler_log):
                console.print(f"The end of {log}:", style="red", soft_wrap=True)
                print_lines(console, [tail(Path(log))])
        if keep:
            backstage.keep()
            console.print()
            print_lines(console, looking_around(ready, str(directory), _program()))
        else:
            console.print()
            print_lines(console, in_the_browser(_program()))
    return 1 if late else 0


def _program() -> str:
    """Return the command that runs this program: its name if it is on PATH, else the path beside the interpreter."""
    return "pvc-prebinder" if which("pvc-prebinder") else str(Path(sys.executable).with_name("pvc-prebinder"))


async def _play(show: Show, watcher: Watcher, ready: Ready, directory: Path) -> None:
    """Play the three acts; NotInTimeError if one does not finish in time."""
    create_named = partial(_create, watcher.api, directory)
    storage, pods = demo_scene.storage_documents(), demo_scene.pod_documents()
    await create_named("storage", storage)
    await show.until(lambda _: watcher.may_use(storage), "the volumes to be Available")
    await create_named("pods", pods)
    show.say(f"{len(storage) + len(pods)} objects created; watching the claims.")
    await show.until(lambda rows: first_act_is_over(rows, watcher), "all pods but one to run")
    await play_outage(
        show,
        watcher,
        Path(ready.volumes),
        create_shop=lambda: create_named("shop", demo_scene.shop_documents()),
        open_shop=lambda: _open_shop(watcher.api),
    )
    await play_placement(show, watcher, create_named)


async def _create(api: KubeApi, directory: Path, name: str, documents: list[Document]) -> None:
    """Create documents in their order, without kubectl, which would have to be built first.

    The file stays in the cluster's directory for reference.
    """
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=1))
    for document in documents:
        kind, metadata = document["kind"], document["metadata"]
        try:
            await api.create(_BY_KIND[kind], document, metadata.get("namespace", ""))
        except KubeError as error:
            raise ClusterError(f"cannot create {kind} {metadata['name']}: {error}") from error


async def _open_shop(api: KubeApi) -> None:
    """Remove the shop's own scheduling gate from its pods."""
    for number in range(demo_scene.REPLICAS):
        pod = f"{demo_scene.SHOP}-{number}"
        try:
            while not await _ungated(api, pod):
                pass
        except KubeError as error:
            raise ClusterError(f"cannot remove the scheduling gate of pod {pod}: {error}") from error


async def _ungated(api: KubeApi, pod: str) -> bool:
    """Remove the gates of a pod; return whether it was unchanged since it was read."""
    namespace, without = demo_scene.NAMESPACE, {"spec": {"schedulingGates": list[str]()}}
    version = _HEAD.decode(await api.get(PODS, pod, namespace)).metadata.resource_version
    try:
        await api.conditional_patch(PODS, pod, without, resource_version=version, namespace=namespace)
    except Conflict:
        return False
    return True


def first_act_is_over(rows: Sequence[Row], watcher: Watcher) -> bool:
    """Whether every pod runs except the one that cannot, and that one has an Event with the reason."""
    pods = watcher.snapshot.pods.values()
    waiting = [pod.name for pod in pods if pod.phase != "Running"]
    open_claims = {row.pod for row in rows if row.state != "Bound"}
    rejected = f"{demo_scene.NAMESPACE}/{demo_scene.IMPOSSIBLE_POD}" in watcher.rejections
    return rejected and waiting == [demo_scene.IMPOSSIBLE_POD] and open_claims == {demo_scene.IMPOSSIBLE_POD}


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log, or a note that there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(nothing was logged)"
