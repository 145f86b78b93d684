"""Rooms import one way, as packages do: each can be read after those that it imports."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.test_architecture import ROOT, modules

PACKAGES = ("kube", "csi", "binder", "scheduler", "why", "prebinder")


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules, and what may be modules, that are imported when this one is: not later, nor for types only."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room_of(module: str) -> str:
    """Return the room of a module, `kube.rules` for all below it; a module beside the rooms stands for itself."""
    return ".".join(module.split(".")[:2])


def test_rooms_form_no_cycle() -> None:
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules(*PACKAGES)}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        rooms = {room_of(module) for module in imported(ast.parse(path.read_text())) if module in paths}
        graph.setdefault(room_of(name), set()).update(rooms - {room_of(name)})
    TopologicalSorter(graph).prepare()


def imports_anywhere(tree: ast.Module) -> Iterator[str]:
    """As `imported`, and those in functions and for types."""
    for node in ast.walk(tree):
        yield from imported(ast.Module([node], [])) if isinstance(node, ast.ImportFrom | ast.Import) else ()


def test_modules_form_no_cycle_wherever_they_import() -> None:
    """An import within a function, or for types only, hides that two modules are one."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules(*PACKAGES)}
    graph = {name: set(imports_anywhere(ast.parse(path.read_text()))) & paths.keys() for name, path in paths.items()}
    TopologicalSorter(graph).prepare()
