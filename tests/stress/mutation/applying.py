"""Putting a mutant in the place of the code that runs, in this process, without importing anything again."""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import repeat
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mutation.mutants import SOURCE, Mutant

Functions = dict[tuple[str, str], list[FunctionType]]


class CannotApplyError(Exception):
    """The mutant cannot be put in the place of what runs, for example since it needs other names of an outer scope."""


def living_functions() -> Functions:
    """Return all functions of the package that exist, by file and qualified name."""
    found: Functions = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(SOURCE)):
            found[thing.__code__.co_filename, thing.__code__.co_qualname].append(thing)
    return found


def caches() -> list[functools._lru_cache_wrapper[Any]]:
    """Return the functions of the package that keep results: they would answer without running a mutant."""
    kept = (thing for thing in gc.get_objects() if type(thing) is functools._lru_cache_wrapper)
    return [cache for cache in kept if str(cache.__module__).startswith("bdkn")]


def apply(mutant: Mutant, functions: Functions) -> None:
    """Make this process run the mutant."""
    former = mutant.place.put(mutant.new)
    try:
        ast.fix_missing_locations(mutant.module)
        if isinstance(mutant.owner, ast.FunctionDef):
            _replace_function(mutant, functions)
        elif isinstance(mutant.owner, ast.ClassDef):
            _replace_field(mutant)
        else:
            _replace_constant(mutant)
    except (SyntaxError, ValueError, NameError, AttributeError, TypeError) as error:
        raise CannotApplyError(str(error)) from error
    finally:
        mutant.place.put(former)


def _replace_function(mutant: Mutant, functions: Functions) -> None:
    path, owner = str(SOURCE / mutant.file), mutant.owner
    assert isinstance(owner, ast.FunctionDef)
    living = functions.get((path, mutant.owner_name), [])
    if not living:
        raise CannotApplyError("no such function exists")
    code = next(_codes(compile(mutant.module, path, "exec", dont_inherit=True), mutant.owner_name))
    for function in living:
        function.__code__ = code
        namespace = function.__globals__
        former = function.__defaults__ or ()
        function.__defaults__ = (
            tuple(map(_value, owner.args.defaults, former, repeat(mutant), repeat(namespace))) or None
        )
        for argument, value in zip(owner.args.kwonlyargs, owner.args.kw_defaults, strict=True):
            if value is not None and function.__kwdefaults__:
                kept = function.__kwdefaults__[argument.arg]
                function.__kwdefaults__[argument.arg] = _value(value, kept, mutant, namespace)


def _value(node: ast.expr, former: Any, mutant: Mutant, namespace: dict[str, Any]) -> Any:
    """Return the value of a default: the former, unless the mutant is in it."""
    if not _holds(node, mutant.new):
        return former
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "default", "eval"), namespace)


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    """Yield the code below ``code`` with a qualified name."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                yield constant
            yield from _codes(constant, name)


def _module(mutant: Mutant) -> ModuleType:
    path = str(SOURCE / mutant.file)
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == path:
            return module
    raise CannotApplyError("its module is not imported")


def _replace_field(mutant: Mutant) -> None:
    """Change the default of a field of a dataclass: an argument of its constructor and an attribute of the class."""
    statement = next(node for node in mutant.owner.body if _holds(node, mutant.new))
    if (
        not isinstance(statement, ast.AnnAssign)
        or not isinstance(statement.target, ast.Name)
        or statement.value is None
    ):
        raise CannotApplyError("not a field")
    module, name = _module(mutant), statement.target.id
    cls, value = getattr(module, mutant.owner_name), _value(statement.value, None, mutant, vars(module))
    init = cls.__init__
    arguments = init.__code__.co_varnames[: init.__code__.co_argcount]
    if name not in arguments:
        raise CannotApplyError("not an argument")
    from_end = arguments.index(name) - len(arguments)
    defaults = list(init.__defaults__)
    defaults[from_end] = value
    init.__defaults__ = tuple(defaults)
    setattr(cls, name, value)


def _replace_constant(mutant: Mutant) -> None:
    """Run the assignment again with the change, and those after it that depend on it, wherever the names are known."""
    module = _module(mutant)
    changed: set[str] = set()
    for statement in mutant.module.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        read = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        if _holds(statement, mutant.new) or read & changed:
            former = dict(module.__dict__)
            exec(compile(ast.Module([statement], []), module.__file__ or "", "exec"), module.__dict__)
            names = {name for name in module.__dict__ if module.__dict__[name] is not former.get(name)}
            names.discard("__annotations__")
            changed |= names
            for name in names:
                _spread(name, former.get(name), module.__dict__[name])


def _spread(name: str, former: object, new: object) -> None:
    for other in list(sys.modules.values()):
        namespace = getattr(other, "__dict__", {})
        if name in namespace and namespace[name] is former and str(namespace.get("__name__", "")).startswith("bdkn"):
            namespace[name] = new


def _holds(tree: ast.AST, node: ast.AST) -> bool:
    return any(child is node for child in ast.walk(tree))
