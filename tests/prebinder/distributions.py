"""Distributions with plugins, installed as pip installs them, into a directory of their own; no index is used."""

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
"""The example of the page about plugins, by file name."""


def install(target: Path, pyproject: str, modules: Mapping[str, str]) -> None:
    """Build a wheel of these modules (file name -> source) and install it below a directory."""
    project = tomllib.loads(pyproject)["project"]
    name, version = project["name"], project["version"]
    entries = "".join(
        f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in named.items())
        for group, named in project["entry-points"].items()
    )
    about = f"{name}-{version}.dist-info"
    files = {
        **modules,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": entries,
    }
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    wheel = target.with_name(f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    done = subprocess.run([*command, "--target", target, wheel], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def environment(target: Path) -> dict[str, str]:
    """Return the variables with which a process finds what is installed there."""
    return {"PYTHONPATH": f"{target}:{ROOT}"}


def run(target: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run pvc-prebinder in an environment where the installed distributions are found."""
    return subprocess.run(
        [sys.executable, "-m", "prebinder.cli", *arguments],
        cwd=cwd,
        env={"PATH": "", "HOME": str(cwd), **environment(target)},
        capture_output=True,
        text=True,
        check=False,
    )
