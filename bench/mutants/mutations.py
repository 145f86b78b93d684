"""The small defects that can be put into a module. Each replaces text within one statement; no line moves."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_SWAPPED: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_SILENT: Final = frozenset({"logger"})
"""Who is called for people only: what is logged, and on which condition, is no promise of a rule or a writer."""
_GENERIC: Final = frozenset(
    {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "frozenset", "list", "set", "tuple"}
)
"""What `[` makes a type of: its elements are for mypy."""
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Node: TypeAlias = ast.stmt | ast.expr


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """Replace `length` bytes at `start` by `text`. `function`: the first line of the innermost function around it,
    0 outside of functions.
    """

    path: str
    line: int
    start: int
    length: int
    text: str
    function: int
    what: str

    def apply(self, source: str) -> str:
        """Return the module with the defect. As many lines as before."""
        given, end = source.encode(), self.start + self.length
        lines = "\n" * (given[self.start : end].count(b"\n") - self.text.count("\n"))
        text = f"({self.text}{lines})" if lines and self.what.startswith("expression") else f"{self.text}{lines}"
        return (given[: self.start] + text.encode() + given[end:]).decode()


def mutations(path: str, source: str) -> list[Mutation]:
    """Return all mutations of a module. A few are no Python: `is_python`."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.mutations)


def is_python(source: str) -> bool:
    """Whether it can be compiled: not every mutation of a match or a target can."""
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.mutations: list[Mutation] = []
        self._path, self._functions = path, [0]
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line.encode()))
        self._bytes = source.encode()

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._visit_function(node)
            return
        if _only_logs(node, self._text):
            return
        for kind, offers in _OFFERS:
            if isinstance(node, kind):
                for target, text, what in offers(node, self._text):
                    self._add(target, text, what)
        self._visit_parts(node)

    def _visit_parts(self, node: ast.AST) -> None:
        for name, child in ast.iter_fields(node):
            # Types, and what only they say, are for mypy.
            if name in {"annotation", "returns", "decorator_list", "bases", "slice"} and not isinstance(
                child, ast.expr
            ):
                continue
            if name != "annotation" and not (name == "slice" and _is_type(node)):
                for each in child if isinstance(child, list) else [child]:
                    if isinstance(each, ast.AST):
                        self.visit(each)

    def _visit_function(self, node: _Function) -> None:
        self._functions.append(min([node.lineno, *(each.lineno for each in node.decorator_list)]))
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()

    def _span(self, node: _Node) -> tuple[int, int]:
        """Return where it begins and ends, in bytes: `ast` counts columns so."""
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return self._lines[node.lineno - 1] + node.col_offset, end

    def _text(self, node: _Node) -> str:
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def _add(self, node: _Node, text: str, what: str) -> None:
        start, end = self._span(node)
        self.mutations.append(Mutation(self._path, node.lineno, start, end - start, text, self._functions[-1], what))


_Text: TypeAlias = Callable[[_Node], str]
_Offer: TypeAlias = tuple[_Node, str, str]


def _only_logs(node: ast.AST, text: _Text) -> bool:
    """Whether a statement does nothing but log, on a condition or without."""
    if isinstance(node, ast.If):
        return all(_only_logs(each, text) for each in (*node.body, *node.orelse))
    called = node.value if isinstance(node, ast.Expr) else None
    return isinstance(called, ast.Call) and text(called).partition(".")[0] in _SILENT


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _GENERIC


def _left_out(node: ast.stmt, text: _Text) -> Iterator[_Offer]:
    """A call or an await whose value is not used, a raise, an assignment to what others read."""
    called = node.value if isinstance(node, ast.Expr) else None
    called = called.value if isinstance(called, ast.Await) else called
    stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if isinstance(called, ast.Call) or stored or isinstance(node, ast.Raise | ast.AugAssign | ast.Delete):
        yield node, "pass", f"left out: {_short(text(node))}"


def _negated(node: ast.If | ast.While | ast.IfExp, text: _Text) -> Iterator[_Offer]:
    yield from _opposite(node.test, text)


def _filters_negated(node: ast.comprehension, text: _Text) -> Iterator[_Offer]:
    for test in node.ifs:
        yield from _opposite(test, text)


def _opposite(test: ast.expr, text: _Text) -> Iterator[_Offer]:
    """Nothing for `==`, `is` and `in`: swapped, they say the same."""
    orders = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    if orders or not isinstance(test, ast.Compare) or len(test.ops) > 1:
        yield test, f"(not ({text(test)}))", f"expression negated: {_short(text(test))}"


def _swapped(node: ast.Compare, text: _Text) -> Iterator[_Offer]:
    operators = [_SWAPPED[type(each)] for each in node.ops]
    if len(operators) == 1:
        changed = f"({text(node.left)} {operators[0]} {text(node.comparators[0])})"
        yield node, changed, f"expression swapped: {_short(text(node))} -> {operators[0]}"


def _operands(node: ast.BoolOp, text: _Text) -> Iterator[_Offer]:
    word = " and " if isinstance(node.op, ast.And) else " or "
    for left_out in node.values:
        kept = word.join(f"({text(each)})" for each in node.values if each is not left_out)
        yield node, f"({kept})", f"expression without the operand {_short(text(left_out))}"


def _elements(node: ast.Tuple | ast.List | ast.Set, text: _Text) -> Iterator[_Offer]:
    marks = {ast.Tuple: "()", ast.List: "[]", ast.Set: "{}"}[type(node)]
    if isinstance(node, ast.Set) and len(node.elts) == 1:
        return
    for left_out in node.elts if not isinstance(getattr(node, "ctx", ast.Load()), ast.Store) else ():
        kept = [text(each) for each in node.elts if each is not left_out]
        body = "".join(f"{each}, " for each in kept)
        yield node, f"{marks[0]}{body}{marks[1]}", f"expression without the element {_short(text(left_out))}"


def _unlocked(node: ast.With | ast.AsyncWith, text: _Text) -> Iterator[_Offer]:
    """A lock, or another context without a name, that is not entered."""
    for item in node.items:
        if item.optional_vars is None:
            other = "__import__('contextlib').nullcontext()"
            yield item.context_expr, other, f"expression not entered: {_short(text(item.context_expr))}"


_OFFERS: Final[Sequence[tuple[type | tuple[type, ...], Callable[..., Iterator[_Offer]]]]] = (
    ((ast.Expr, ast.Assign, ast.Raise, ast.AugAssign, ast.Delete), _left_out),
    ((ast.If, ast.While, ast.IfExp), _negated),
    (ast.comprehension, _filters_negated),
    (ast.Compare, _swapped),
    (ast.BoolOp, _operands),
    ((ast.Tuple, ast.List, ast.Set), _elements),
    ((ast.With, ast.AsyncWith), _unlocked),
)


def _short(text: str) -> str:
    return " ".join(text.split())[:80]
