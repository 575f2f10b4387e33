"""Small mistakes in a module: `<` becomes `<=`, `and` becomes `or`, a statement goes missing."""

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

SWAPS: Mapping[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Declarations, not decisions: defaults of settings, checks of lengths that always agree, and
# whether a field is shown.
SKIPPED_CALLS, SKIPPED_KEYWORDS = ("setting",), ("strict", "repr")
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "type_params")
MESSAGES = (
    "require",
    "UserError",
    "ValueError",
    "Diverged",
)  # calls whose formatted text is for people


class Mutant(NamedTuple):
    """One mistake."""

    path: str  # of the module, from the root of the project
    line: int
    text: str  # of that line, without the mistake
    change: str  # for people: before -> after
    function: str  # qualified name of the outermost function with the mistake; "" if in none
    source: str  # of the whole module, with the mistake

    @property
    def key(self) -> str:
        """Identifies the mutant in a table."""
        return hashlib.sha256(f"{self.path}\n{self.source}".encode()).hexdigest()[:16]


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree, lines = ast.parse(source), source.splitlines()
    for node, function in _mutable_nodes(tree):
        for apply, undo in _edits(node):
            before, line = ast.unparse(node), getattr(node, "lineno", 1)
            apply()
            after = "" if isinstance(node, ast.Pass) else ast.unparse(node)
            change = f"{_short(before)} -> {_short(after) or 'removed'}"
            text = lines[line - 1].strip()
            yield Mutant(path, line, text, change, function, ast.unparse(tree))
            undo()


def _mutable_nodes(
    node: ast.AST, scope: str = "", function: str = ""
) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that are run, and the outermost functions that they are in.

    Neither annotations and decorators nor declarations and messages are mistaken.
    """
    yield node, function
    name = f"{scope}{node.name}" if isinstance(node, _NAMED) else ""
    for field, value in ast.iter_fields(node):
        inside = function
        if isinstance(node, _FUNCTIONS) and field == "body":  # unlike its defaults
            inside = function or name
        if field in SKIPPED_FIELDS or (isinstance(node, ast.Assert) and field == "msg"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_skipped(child, node):
                yield from _mutable_nodes(child, f"{name}." if name else scope, inside)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (*_FUNCTIONS, ast.ClassDef)


def _is_skipped(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in SKIPPED_CALLS
        case ast.keyword(arg=name):
            return name in SKIPPED_KEYWORDS
        case ast.FunctionDef(name="__repr__") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.JoinedStr():
            return isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in MESSAGES
    return False


Edit = tuple[Callable[[], None], Callable[[], None]]  # apply and undo


def _edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _set_item(ops, place, SWAPS[type(op)]())
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            yield _set(node, "op", SWAPS[type(op)]())
        case ast.Constant(value=bool(value)):
            yield _set(node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _set(node, "value", value + 1)
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            yield _set(node, "id", NAMES[name])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _become(node, operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield _become(node, operand)
        case ast.Call(func=ast.Attribute(value=value, attr="detach")):
            yield _become(node, value)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield _set(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.Constant(value=None)):
            pass  # a bare return would be the same
        case ast.Return(value=ast.AST()):
            yield _set(node, "value", None)
    if isinstance(node, ast.AugAssign | ast.Raise | ast.Continue) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield _become(node, ast.Pass())


def _set(node: ast.AST, field: str, value: Any) -> Edit:
    before = getattr(node, field)
    return lambda: setattr(node, field, value), lambda: setattr(node, field, before)


def _set_item(items: list[Any], place: int, value: Any) -> Edit:
    before = items[place]
    return lambda: items.__setitem__(place, value), lambda: items.__setitem__(place, before)


def _become(node: ast.AST, other: ast.AST) -> Edit:
    """Turn a node into another one in its place: its parent need not be known."""
    kind, fields = type(node), dict(node.__dict__)

    def apply() -> None:
        node.__class__ = type(other)
        node.__dict__.update(other.__dict__)

    def undo() -> None:
        node.__class__ = kind
        node.__dict__.clear()
        node.__dict__.update(fields)

    return apply, undo


def _short(text: str) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= 60 else line[:57] + "..."
