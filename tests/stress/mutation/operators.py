"""The changes that are made to the source: for a node of its syntax tree, the nodes that may stand in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Change = tuple[str, ast.AST]
"""Name of the kind of change, and the new node."""

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPPOSITES = {
    "min": "max",
    "minimum": "maximum",
    "any": "all",
    "floor": "ceil",
    "argmin": "argmax",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "cumsum": "cumprod",
    "log": "log1p",
    "exp": "expm1",
    "mean": "sum",
    "cdf": "sf",
    "logcdf": "logsf",
    "sin": "cos",
    "left": "right",
    "lower": "upper",
}
_RENAMED = {**_OPPOSITES, **{new: old for old, new in _OPPOSITES.items()}}
_REMOVABLE = {"abs", "sqrt", "square", "sorted", "nan_to_num", "clip", "maximum", "minimum"}
_SYMMETRIC = {
    "min",
    "max",
    "minimum",
    "maximum",
    "hypot",
    "logaddexp",
    "array_equal",
    "betaln",
    "clip",
    "swapaxes",
    "allclose",
}
_UNSEEN = {"strict", "check_finite", "overwrite_a", "overwrite_b", "order", "stacklevel", "copy", "optimize"}
"""Keywords about speed, or about errors of this library itself: no result depends on them."""
_WORDING = {"check_number", "check_choice", "read_numbers", "warn", "InvalidParameterError", "cast"}


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of one node."""
    match node:
        case ast.BinOp(op=op):
            if type(op) in _ARITHMETIC:
                yield "arithmetic", _with(node, op=_ARITHMETIC[type(op)]())
        case ast.AugAssign(op=op):
            if type(op) in _ARITHMETIC:
                yield "arithmetic", _with(node, op=_ARITHMETIC[type(op)]())
            yield "no statement", ast.Pass()
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield "no sign or not", operand
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    yield "comparison", _with(node, ops=[*ops[:i], other(), *ops[i + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield "and or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield "no operand", rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.Constant(value=value):
            yield from _constants(value)
        case ast.Call():
            yield from _calls(node)
        case ast.Attribute(attr="T", value=value):
            yield "no transpose", value
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "negation", _with(node, test=ast.UnaryOp(ast.Not(), test))
            yield "one branch", body
            yield "one branch", orelse
        case ast.stmt():
            yield from _statements(node)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    given = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**given, **fields}), node)


def _constants(value: object) -> Iterator[Change]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, str):
        yield "constant", ast.Constant(_RENAMED.get(value, f"not {value}"))


def _calls(node: ast.Call) -> Iterator[Change]:
    """Yield changes of a call: another function, arguments in another order, without a keyword, without the call."""
    function, arguments = node.func, node.args
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in _RENAMED:
        field = "attr" if isinstance(function, ast.Attribute) else "id"
        yield "another function", _with(node, func=_with(function, **{field: _RENAMED[name]}))
    if name in _REMOVABLE and arguments:
        yield "no call", arguments[0]
    if isinstance(function, ast.Attribute) and name in ("copy", "reshape", "squeeze"):
        yield "no call", function.value
    plain = not any(isinstance(part, ast.Starred) for part in arguments[:2])
    if len(arguments) > 1 and plain and name not in _SYMMETRIC and ast.dump(arguments[0]) != ast.dump(arguments[1]):
        yield "swapped arguments", _with(node, args=[arguments[1], arguments[0], *arguments[2:]])
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in _UNSEEN:
            yield "no keyword", _with(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])


def _statements(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.If(test=test):
            yield "negation", _with(node, test=ast.UnaryOp(ast.Not(), test))
            yield "condition never", _with(node, test=ast.Constant(False))
            yield "condition always", _with(node, test=ast.Constant(True))
        case ast.While(test=test):
            yield "condition never", _with(node, test=ast.Constant(False))
        case ast.Return(value=value) if value is not None and getattr(value, "value", 0) is not None:
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr() | ast.Delete() | ast.Assert():
            yield "no statement", ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield "no statement", ast.Pass()
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _reads(value, name):
            yield "no statement", ast.Pass()
        case ast.Break():
            yield "break continue", ast.Continue()
        case ast.Continue():
            yield "break continue", ast.Break()


def _reads(expression: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(expression))


def is_wording(node: ast.AST) -> bool:
    """Return whether nothing below a node is changed: texts of messages, types, imports, what only a checker reads."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.FunctionDef) and (node.name in ("__repr__", "__str__") or _is_abstract(node)):
        return True
    if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in _UNSEEN
    if isinstance(node, ast.If):
        return getattr(node.test, "id", "") == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):  # a docstring, or an ellipsis
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"


def _is_abstract(node: ast.FunctionDef) -> bool:
    return any(getattr(decorator, "id", "") in ("abstractmethod", "overload") for decorator in node.decorator_list)


def is_name_in_message(parent: ast.AST, field: str, index: int | None) -> bool:
    """Return whether a node is the name of an argument that a check puts in its message."""
    if not (isinstance(parent, ast.Call) and field == "args" and isinstance(parent.args[index or 0], ast.Constant)):
        return False
    return getattr(parent.func, "id", getattr(parent.func, "attr", "")) in _WORDING
