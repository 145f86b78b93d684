"""The house rules that a machine can check."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from prebinder import cli, config_file

ROOT = Path(__file__).parents[1]
PRODUCT = ("prebinder", "scheduler", "binder", "csi", "kube", "devcluster")
COMMANDS = [command for commands in cli.SECTIONS.values() for command in commands]
GENERATED = ROOT / "csi" / "proto"
LONGEST_MODULE = 400
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "shared"}


def modules(*packages: str) -> list[Path]:
    files = (file for package in packages for file in sorted((ROOT / package).rglob("*.py")))
    return [file for file in files if GENERATED not in file.parents]


def name_of(path: object) -> str:
    return str(path.relative_to(ROOT)) if isinstance(path, Path) else str(path)


def test_packages_import_one_way_and_rules_are_pure() -> None:
    """The contracts stand in pyproject.toml."""
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("module", modules(*PRODUCT, "tests", "bench", "soak"), ids=name_of)
def test_modules_are_short(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("module", modules(*PRODUCT, "soak"), ids=name_of)
def test_modules_say_what_they_are(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text()))


@pytest.mark.parametrize(
    "package", [module for module in modules(*PRODUCT, "soak") if module.name == "__init__.py"], ids=name_of
)
def test_a_package_has_a_charter_that_ends_with_what_it_never_holds(package: Path) -> None:
    charter = ast.get_docstring(ast.parse(package.read_text())) or ""
    sentences = re.split(r"(?<=[.])\s+", charter.strip())
    assert sentences[-1].startswith("Never")


@pytest.mark.parametrize("module", modules(*PRODUCT), ids=name_of)
def test_no_module_is_a_drawer(module: Path) -> None:
    assert module.stem not in DRAWERS


@pytest.mark.parametrize("package", PRODUCT)
def test_no_package_hides_one_of_the_standard_library(package: str) -> None:
    assert package not in sys.stdlib_module_names


def test_a_metric_has_one_place() -> None:
    names = Counter(
        node.value
        for module in modules(*PRODUCT)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"(pvc_prebinder|csi|workqueue|rest_client|leader_election)_\w+", node.value)
    )
    assert names, "no metric found: the pattern is wrong"
    assert [name for name, count in names.items() if count > 1] == []


def readme() -> str:
    return (ROOT / "README.md").read_text()


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)", readme())) <= targets


def test_commands_of_the_readme_exist() -> None:
    assert set(re.findall(r"pvc-prebinder ([a-z][a-z-]+)(?= |`|$)", readme(), re.MULTILINE)) <= set(COMMANDS)


def test_flags_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (*COMMANDS, "quarantine list", "quarantine release", "dev profile", "dev devcluster up"):
        assert cli.run([*command.split(), "--help"]) == 0
    known = capsys.readouterr().out
    used = set(re.findall(r"pvc-prebinder [a-z]+[^\n`]*?(--[a-z-]+)", readme()))
    assert used
    assert {flag for flag in used if flag not in known} == set()


def test_configurations_of_the_readme_are_valid() -> None:
    blocks = re.findall(r"^```yaml\n(apiVersion: config\..*?)^```", readme(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        config_file.CONTROLLER.parse(block)


def test_files_of_the_readme_exist() -> None:
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", readme()))
    assert {path for path in linked if not (ROOT / path).exists()} == set()


SECURITY = (ROOT / "docs" / "security.md").read_text()
PROVEN = "What a user of one namespace "


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", SECURITY))))
def test_tests_that_the_security_page_names_exist(name: str) -> None:
    path, _, function = name.partition("::")
    defined = ast.walk(ast.parse((ROOT / path).read_text()))
    assert function in {node.name for node in defined if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_sentence_about_what_users_can_and_cannot_do_names_its_test() -> None:
    chapters = [chapter for chapter in SECURITY.split("\n## ") if chapter.startswith(PROVEN)]
    assert len(chapters) == 2
    rows = [line for chapter in chapters for line in chapter.splitlines() if re.match(r"\| (?!a user)\w", line)]
    assert len(rows) > 15
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+` \|$", row)] == []


def test_no_file_names_where_it_was_made() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    workplace = "/wo" + "rk/"  # in two, so that this line does not name it either
    naming = [file for file in tracked if workplace in (ROOT / file).read_text(errors="replace")]
    assert naming == []
