"""Texts about parameters and attributes that a class has from its base class, for its own docstring."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

Class = TypeVar("Class", bound=type)


def with_inherited_docs(cls: Class) -> Class:
    """Replace lines such as ``<Parameters of Base>`` in a docstring by that section, with defaults of the class."""

    def section(found: re.Match[str]) -> str:
        base = next(base for base in cls.__mro__ if base.__name__ == found[3])
        text = inspect.cleandoc(base.__doc__ or "")
        part = re.search(rf"^{found[2]}\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
        assert part is not None, f"{base.__name__} has a section {found[2]}"
        return "\n".join(found[1] + line if line else line for line in part[1].rstrip().splitlines())

    text = re.sub(r"^( *)<(Parameters|Attributes) of (\w+)>$", section, cls.__doc__ or "", flags=re.MULTILINE)
    parameters = inspect.signature(cls).parameters
    for name in parameters.keys() & vars(cls).get("__annotations__", {}).keys():  # the base may have another default
        default = repr(parameters[name].default).replace("'", '"')
        text = re.sub(rf"^( *{name} : .*, default=).*$", rf"\g<1>{default}", text, flags=re.MULTILINE)
    cls.__doc__ = text
    return cls
