"""The house rules that a machine can check."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from msgspec import Struct

from kube.decoding.interning import DecodedParts, Pool
from kube.objects.model import Taint
from kube.persistent_map import Map
from kube.store.store import Store
from prebinder import cli
from prebinder.config import config_file

ROOT = Path(__file__).parents[1]
PRODUCT = ("prebinder", "why", "scheduler", "binder", "csi", "kube", "demo", "devcluster")
COMMANDS = [*(command for commands in cli.SECTIONS.values() for command in commands), *cli.ALIASES]
GENERATED = ROOT / "csi" / "proto"
MAX_MODULE_LINES = 400
MAX_ROOM_MODULES = 12
MAX_FUNCTION_LINES = 40
MAX_STORY_LINES = 50
"""A test that is told from its beginning to its end may take more lines than a function of the product."""
COMPOSITION = "prebinder/controller/term.py: compose"
"""A list of what is connected to what. Its parts would hand ten objects from one to the next."""
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "shared"}


def modules(*packages: str) -> list[Path]:
    files = (file for package in packages for file in sorted((ROOT / package).rglob("*.py")))
    return [file for file in files if GENERATED not in file.parents]


def name_of(path: object) -> str:
    return str(path.relative_to(ROOT)) if isinstance(path, Path) else str(path)


def offences(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> list[str]:
    """Return what a rule objects to, each with its file. A test for each of a thousand files would take minutes."""
    return [f"{name_of(path)}: {offence}" for path in paths for offence in rule(path)]


def test_packages_import_one_way_and_rules_are_pure() -> None:
    """The contracts stand in pyproject.toml."""
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def pure_modules() -> list[Path]:
    """Return the modules that the contract about pure rules names, those of a named package included."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = next(contract["source_modules"] for contract in contracts if contract["name"].startswith("Rules neither"))
    paths = [ROOT / name.replace(".", "/") for name in named]
    return [file for path in paths for file in ([*path.rglob("*.py")] if path.is_dir() else [path.with_suffix(".py")])]


READ_ONLY = re.compile(r"(Final|ClassVar)\[(Mapping|Sequence|Collection|Set)\b")
"""A type that lets mypy reject any write to it."""

BOUNDED_CACHES = (DecodedParts, Pool)
"""Like `lru_cache` with a size on a pure function: it shows only in time and memory."""


def can_change(value: object) -> bool:
    """Whether a value has a state of its own. Of classes of libraries only the containers are known."""
    if isinstance(value, dict | list | set | deque | bytearray):
        return True
    kind = type(value)
    if isinstance(value, (type, Enum, Map, *BOUNDED_CACHES)) or kind.__module__.split(".")[0] not in PRODUCT:
        return False
    if is_dataclass(value):
        return not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return not value.__struct_config__.frozen if isinstance(value, Struct) else bool(attributes_of(value))


def attributes_of(value: object) -> set[str]:
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    return {name for name in (*getattr(value, "__dict__", ()), *slots) if hasattr(value, name)}


def is_prescribed(owner: object, name: str) -> bool:
    """Whether a class states something in the form that a library prescribes."""
    foreign = [base for base in getattr(owner, "__mro__", ()) if base.__module__.split(".")[0] not in PRODUCT]
    return name == "__pydantic_config__" or any(name in vars(base) for base in foreign)


def globals_that_can_change(owner: object, body: list[ast.stmt]) -> Iterator[str]:
    """Yield what is assigned in a module, or in a class of it, and may be written to by its value and its type."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from globals_that_can_change(vars(owner)[statement.name], statement.body)
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        annotation = ast.unparse(statement.annotation) if isinstance(statement, ast.AnnAssign) else ""
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        values = [vars(owner).get(name) for name in names if not is_prescribed(owner, name)]
        if any(map(can_change, values)) and not READ_ONLY.match(annotation):
            yield ast.unparse(statement)


def unbounded_caches(body: list[ast.stmt]) -> Iterator[str]:
    for function in (statement for statement in body if isinstance(statement, ast.FunctionDef)):
        for written in map(ast.unparse, function.decorator_list):
            if "cache" in written and not re.search(r"\bmaxsize=\d", written):
                yield f"@{written} def {function.name}"


@pytest.mark.parametrize(
    ("source", "rejected"),
    [
        ("LATEST: Final[list[int]] = []", True),
        ("KNOWN: Final = {}", True),
        ("STORE: Final = Store()", True),
        ("class Rule:\n    known = set()", True),
        ("KNOWN: Final[Mapping[str, int]] = {}", False),
        ("NAMES: Final = frozenset({1})", False),
        ("WELL: Final = Taint('key', 'NoExecute')", False),
        ("POOL: Final = Pool()", False),
    ],
)
def test_what_counts_as_a_global_that_can_change(source: str, rejected: bool) -> None:
    module = ModuleType("kube.example")
    vars(module).update(Store=Store, Taint=Taint, Pool=Pool, Final=Final, Mapping=Mapping)
    exec(source, vars(module))
    assert bool([*globals_that_can_change(module, ast.parse(source).body)]) == rejected


def what_is_remembered(module: Path) -> Iterator[str]:
    parsed = ast.parse(module.read_text())
    name = ".".join(module.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    yield from globals_that_can_change(importlib.import_module(name), parsed.body)
    yield from unbounded_caches(parsed.body)
    yield from (ast.unparse(node) for node in ast.walk(parsed) if isinstance(node, ast.Global))


def test_a_pure_module_remembers_nothing() -> None:
    """What is remembered lives in an object with an owner that passes it on; tables are declared read-only."""
    pure = pure_modules()
    assert pure
    assert offences(what_is_remembered, pure) == []


def test_modules_are_short() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in modules(*PRODUCT, "tests", "bench", "soak")}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_MODULE_LINES} == {}


def long_functions(module: Path) -> Iterator[str]:
    """Yield the functions whose statements, without the signature and the docstring, take too many lines."""
    most = MAX_STORY_LINES if ROOT / "tests" in module.parents else MAX_FUNCTION_LINES
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *others = node.body
            start = others[0] if others and ast.get_docstring(node, clean=False) is not None else first
            if (node.end_lineno or 0) - start.lineno >= most:
                yield node.name


def test_functions_are_short() -> None:
    too_long = offences(long_functions, modules(*PRODUCT, "bench", "soak", "tests"))
    assert [function for function in too_long if function != COMPOSITION] == []


def test_rooms_are_small() -> None:
    """A folder with more than a dozen modules is searched, not read: it becomes two."""
    every = modules(*PRODUCT, "tests", "bench", "soak")
    sizes = Counter(name_of(module.parent) for module in every if module.name not in {"__init__.py", "conftest.py"})
    assert {room: size for room, size in sizes.items() if size > MAX_ROOM_MODULES} == {}


def imported_stories(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and re.match(r"tests\.scenarios\..*\btest_", node.module or ""):
            yield node.module or ""


def test_what_stories_share_is_no_test_module() -> None:
    assert offences(imported_stories, modules("tests/scenarios")) == []


def docstring_of(module: Path) -> str:
    return ast.get_docstring(ast.parse(module.read_text())) or ""


def test_modules_say_what_they_are() -> None:
    assert [name_of(module) for module in modules(*PRODUCT, "soak") if not docstring_of(module)] == []


def test_a_package_has_a_charter_that_ends_with_what_it_never_holds() -> None:
    every = modules(*PRODUCT, "bench", "soak", "tests/scenarios")
    charters = {name_of(path): docstring_of(path) for path in every if path.name == "__init__.py"}
    last = {name: re.split(r"(?<=[.])\s+", charter.strip())[-1] for name, charter in charters.items()}
    assert last
    assert {name: sentence for name, sentence in last.items() if not sentence.startswith("Never")} == {}


def test_no_module_is_a_drawer() -> None:
    assert [name_of(module) for module in modules(*PRODUCT) if module.stem in DRAWERS] == []


@pytest.mark.parametrize("package", PRODUCT)
def test_no_package_hides_one_of_the_standard_library(package: str) -> None:
    assert package not in sys.stdlib_module_names


def test_a_class_name_stands_for_one_thing() -> None:
    """Records of the API's own JSON are called as the API calls them."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules("prebinder", "why", "scheduler", "binder", "csi", "kube"):
        if not module.name.startswith("wire"):
            for statement in ast.parse(module.read_text()).body:
                if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                    homes[statement.name].append(name_of(module))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


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


def test_configurations_of_the_reference_are_valid() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    blocks = re.findall(r"^```yaml\n(apiVersion: config\..*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        config_file.CONTROLLER.parse(block)


def test_files_of_the_readme_exist() -> None:
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", readme()))
    assert {path for path in linked if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_paths_and_targets_of_the_pages_for_contributors_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    named = re.findall(r"`((?:tests|docs|binder|\.ci)/[\w/.]+|CHANGELOG\.md)", text)
    assert [path for path in (*linked, *named) if not (ROOT / path).exists()] == []
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z0-9-]+)", text)) <= targets


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


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
FLOWCHARTS = re.findall(r"^```mermaid\nflowchart \w+\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
NODE = r'(\w+)(?:(\[|\(\[)"([\w/]+)"(?:\]|\]\)))?'
"""A box is a module that hands something on, a rounded one returns an answer."""


def arrows_of(flowchart: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each arrow the module it starts from, its kind, its label, and the module it ends at."""
    modules_by_id = {name: path for name, _, path in re.findall(NODE, flowchart) if path}
    for line in flowchart.splitlines():
        parsed = re.fullmatch(rf"\s*{NODE} (-->|-\. (\w+) \.->|== (\w+) ==>) {NODE}", line)
        assert parsed, f"an arrow that this test cannot read: {line}"
        source, _, _, arrow, dotted, thick, target, _, _ = parsed.groups()
        yield modules_by_id[source], arrow[:2], dotted or thick or "", modules_by_id[target]


def modules_in(flowchart: str, shapes: Collection[str] = ("[", "([")) -> set[str]:
    return {path for _, shape, path in re.findall(NODE, flowchart) if shape in shapes and path}


def test_walks_of_the_architecture_page_state_their_length() -> None:
    pictures = r"^```mermaid\nflowchart \w+\n(.*?)^```\n\n(\d+) modules"
    walks = re.findall(pictures, ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert len(walks) == 3
    assert [len(modules_in(picture)) for picture, _ in walks] == [int(stated) for _, stated in walks]


def imported_by(module: str) -> set[str]:
    parsed = ast.walk(ast.parse((ROOT / f"{module}.py").read_text()))
    return {node.module.replace(".", "/") for node in parsed if isinstance(node, ast.ImportFrom) and node.module}


def functions_of(module: str) -> set[str]:
    parsed = ast.walk(ast.parse((ROOT / f"{module}.py").read_text()))
    return {node.name for node in parsed if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_paths_of_the_architecture_page_exist() -> None:
    named = set(re.findall(rf"\b(?:{'|'.join((*PRODUCT, 'bench', 'soak'))})/[\w/]*", ARCHITECTURE))
    assert named
    assert {path for path in named if not (ROOT / path).is_dir() and not (ROOT / f"{path}.py").is_file()} == set()


def test_pages_that_the_architecture_page_links_exist() -> None:
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", ARCHITECTURE))
    assert linked
    assert {path for path in linked if not (ROOT / "docs" / path).is_file()} == set()


def test_every_change_on_the_architecture_page_names_its_files() -> None:
    """That they exist is tested above, like every path of the page."""
    _, _, chapter = ARCHITECTURE.partition("## Where to change what\n")
    rows = [line.split("|") for line in chapter.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 8
    assert [row[1] for row in rows if not re.search(rf"`({'|'.join(PRODUCT)})/[\w/]+`", row[2])] == []


def test_every_room_is_on_the_architecture_page() -> None:
    packages = ("prebinder", "why", "scheduler", "binder", "csi", "kube")
    rooms = {str(path.parent.relative_to(ROOT)) for path in modules(*packages)}
    nested = {"prebinder/commands/dev", "prebinder/commands/run", "prebinder/commands/why"}
    assert {room for room in rooms - nested if f"`{room}/`" not in ARCHITECTURE} == set()


def test_pure_rooms_of_the_architecture_page_are_those_of_the_contract() -> None:
    marked = set(re.findall(r"^\| `([\w/]+)/` \| ● \|", ARCHITECTURE, re.MULTILINE))
    assert marked == {str(module.parent.relative_to(ROOT)) for module in pure_modules()}


@pytest.mark.parametrize("arrow", [arrow for flowchart in FLOWCHARTS for arrow in arrows_of(flowchart)], ids=str)
def test_arrows_of_the_architecture_page_are_imports_or_calls(arrow: tuple[str, str, str, str]) -> None:
    source, kind, label, target = arrow
    match kind:
        case "--":
            assert target in imported_by(source)
        case "-.":
            assert f".{label}(" in (ROOT / f"{source}.py").read_text()
            assert label in functions_of(target)
        case _:
            assert label in functions_of(target)


def test_no_file_names_where_it_was_made() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    workplace = "/wo" + "rk/"  # in two, so that this line does not name it either
    naming = [file for file in tracked if workplace in (ROOT / file).read_text(errors="replace")]
    assert naming == []
