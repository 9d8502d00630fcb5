"""Properties that are computed on first access and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):
    """A property that is computed once for each object, without a lock.

    ``functools.cached_property`` of Python 3.11 has one lock for all objects of a class, so that threads that predict
    with the same class would wait for each other. Two threads that access the property of one object at the same time
    may both compute it: the value must depend on the object alone.

    Parameters
    ----------
    compute : callable
        The method that computes the value.

    Examples
    --------
    >>> from bdkn.lazy import lazy
    >>> class Square:
    ...     @lazy
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 4.0
    >>> square = Square()
    >>> square.area, square.area
    computed
    (4.0, 4.0)
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)  # from now on, Python finds this value first
        return value
