"""Reads the docstrings below the fields of a model: they are the descriptions in CRDs and in the reference.

pydantic can do the same (`use_attribute_docstrings`), but it reads the sources whenever a class is created, which would slow down
the start of every process. Here they are read only where a schema is built.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel


@cache
def read_field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Return field → description, with the fields of base classes."""
    bases = (
        base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel
    )
    return {name: text for base in bases for name, text in _read_class(base).items()}


def _read_class(model: type) -> Mapping[str, str]:
    path = getattr(sys.modules[model.__module__], "__file__", None)
    return {} if path is None else _read_module(path).get(model.__name__, {})


@cache
def _read_module(path: str) -> Mapping[str, Mapping[str, str]]:
    """Return class → field → description of the classes at the top of a module."""
    classes = (node for node in ast.parse(Path(path).read_text()).body if isinstance(node, ast.ClassDef))
    return {each.name: dict(_find_docs(each)) for each in classes}


def _find_docs(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (field.target.id, " ".join(inspect.cleandoc(text.value.value).split("\n")))
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    ]
