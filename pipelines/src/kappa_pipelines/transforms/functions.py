"""User functions: found when a pipeline is compiled, and again by the Python workers."""

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.python import describe, locate


@dataclass(frozen=True)
class UserFunction:
    """A function by its name `module:function`, and the folder of its module.

    This object, not the function, is pickled for the workers: a worker imports the module from the same folder, or from its
    own Python path if it has no such folder.
    """

    name: str
    folder: str

    def load(self) -> Callable[..., Any]:
        """Return the function; passes on exceptions of the module."""
        return _load_again(self.name, self.folder)


@lru_cache
def _load_again(name: str, folder: str) -> Callable[..., Any]:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def find_function(view: str, name: str, arguments: tuple[str, ...]) -> UserFunction:
    """Return the function that the workers call with these arguments; SpecError if it does not exist or takes others."""
    function = load_function(view, name)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise fail(view, f"{name} must take {' and '.join(arguments)}: {error}") from error
    except ValueError:  # a builtin without a signature
        pass
    return UserFunction(name, _find_folder(name.partition(":")[0]))


def _find_folder(module: str) -> str:
    top = sys.modules[module.partition(".")[0]]
    inside = list(getattr(top, "__path__", ()))
    return str(Path(inside[0] if inside else str(top.__file__)).resolve().parent)


def load_function(view: str, name: str) -> Callable[..., Any]:
    """Return the function; SpecError if it does not exist or its module fails."""
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise fail(
                view,
                f"module {module_name} is neither on the Python path of the image nor in spec.pythonFrom",
            ) from error
        raise fail(view, f"{module_name} cannot be imported{locate(error)}: {describe(error)}") from error
    except Exception as error:
        raise fail(view, f"{module_name} cannot be imported{locate(error)}: {describe(error)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        there = ", ".join(
            sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_")
        )
        raise fail(view, f"{module_name} has no function {function}; it has {there or 'none'}")
    return found  # type: ignore[no-any-return]


def fail(view: str, text: str) -> SpecError:
    """Return the error for a view with an invalid function."""
    return SpecError(Reason.PYTHON_VIEW_FAILED, f"view {view!r}: {text}")
