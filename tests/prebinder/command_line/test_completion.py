"""Completion in the shells themselves, from a kubeconfig and from an API server; a shell that is missing is skipped."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
import yaml

NAMES: Final = {
    "/api/v1/namespaces": ["shop", "shed", "web"],
    "/api/v1/namespaces/shop/pods": ["cart-0", "cart-1"],
    "/api/v1/namespaces/shop/persistentvolumeclaims": ["cart-data", "log"],
    "/api/v1/namespaces/web/pods": ["db-0"],
    "/api/v1/persistentvolumes": ["pv-a", "pv-b"],
    "/apis/apps/v1/namespaces/shop/statefulsets": ["cart"],
}

BASH: Final = """
source <(pvc-prebinder completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
_pvc_prebinder_completion pvc-prebinder
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH: Final = """
compdef() { : }
compadd() { local each; for each in "$@"; [[ $each == -* ]] || print -l -- ${(P)each} }
_describe() { local each; for each in ${(P)3}; print -l -- ${each%%:*} }
eval "$(pvc-prebinder completion zsh)"
words=("$@"); CURRENT=$#
(( $+commands[pvc-prebinder] ))
_pvc_prebinder_completion
"""
FISH: Final = "pvc-prebinder completion fish | source; complete --do-complete (string join ' ' -- $argv)"


class _Answers(BaseHTTPRequestHandler):
    """Answers lists by their names alone."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = 200 if path in NAMES else 404
        items = [{"metadata": {"name": name}} for name in NAMES.get(path, ())]
        body = json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig of two contexts; the server of the current one answers, that of the other is not there."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    context = {"cluster": "here", "user": "me", "namespace": "web"}
    gone = {"cluster": "gone", "user": "me"}
    file = tmp_path_factory.mktemp("kube") / "config"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "production",
                "clusters": [
                    {"name": "here", "cluster": {"server": address}},
                    {"name": "gone", "cluster": {"server": "http://127.0.0.1:9"}},
                ],
                "users": [{"name": "me", "user": {"token": "t"}}],
                "contexts": [{"name": "production", "context": context}, {"name": "staging", "context": gone}],
            }
        )
    )
    yield file
    server.shutdown()
    thread.join()
    server.server_close()


def completed(shell: str, words: str, kubeconfig: Path) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}
    given = ["pvc-prebinder", *words.split(" ")]
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    command = [shell, "-c", script, *(() if shell == "fish" else ("test",)), *given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return sorted(line.partition("\t")[0] for line in done.stdout.splitlines() if line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("why -n sh", ["shed", "shop"]),
        ("why --context s", ["staging"]),
        ("why -n shop pod/c", ["pod/cart-0", "pod/cart-1"]),
        ("why -n shop ca", ["cart-0", "cart-1", "cart-data"]),
        ("health ", ["pv-a", "pv-b"]),
        ("explain TopologyCon", ["TopologyConflict", "TopologyContradicted"]),
    ],
)
def test_a_shell_completes_names(shell: str, words: str, expected: list[str], kubeconfig: Path) -> None:
    assert completed(shell, words, kubeconfig) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("why d", ["db-0"]),
        ("why -n shop sts/", ["sts/cart"]),
        ("why -n shop pvc lo", ["log"]),
        ("why pv/pv", ["pv/pv-a", "pv/pv-b"]),
        ("reservations list -n w", ["web"]),
        ("quarantine release pv-b", ["pv-b"]),
        ("why --context staging -n s", []),
        ("why node/", []),
    ],
)
def test_bash_completes_what_the_words_before_it_mean(words: str, expected: list[str], kubeconfig: Path) -> None:
    assert completed("bash", words, kubeconfig) == expected
