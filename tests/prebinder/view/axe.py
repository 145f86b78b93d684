"""axe-core, which looks for what keeps people from using a page. It is fetched from npm once, and kept in the cache."""

import os
import subprocess
import tarfile
from pathlib import Path
from shutil import which
from typing import Any, Final

import pytest
from playwright.async_api import Page

VERSION: Final = "4.10.3"
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pvc-prebinder"
_TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN: Final = "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})"


def source() -> str:
    """Return its program. Skips the test where it is not cached, and npm cannot fetch it."""
    kept = _CACHE / f"axe-core-{VERSION}.tgz"
    if not kept.exists():
        npm = which("npm")
        if npm is None:
            pytest.skip("no npm to fetch axe-core with: install it (apt-get install npm)")
        _CACHE.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", f"axe-core@{VERSION}", "--pack-destination", str(_CACHE), "--silent"]
        if subprocess.run(command, check=False, timeout=120, capture_output=True).returncode:
            pytest.skip("npm could not fetch axe-core")
    with tarfile.open(kept) as package:
        file = package.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


async def findings(page: Page, program: str) -> list[str]:
    """Return what axe-core finds on the page as it is now: the rule, the element, and what is wrong with it.

    That squares are small does not count: the table and the search have the same volumes as links (WCAG 2.2, 2.5.8,
    Equivalent), and for fingers they are larger.
    """
    await page.evaluate(program)
    result: dict[str, Any] = await page.evaluate(_RUN, _TAGS)
    return [
        f"{violation['id']}: {' '.join(node['target'])}: {node['failureSummary']}"
        for violation in result["violations"]
        for node in violation["nodes"]
        if violation["id"] != "target-size" or 'class="cell' not in node["html"]
    ]
