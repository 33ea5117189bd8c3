"""The user's own functions: found when a pipeline is compiled, found again by Python's workers, and what one says that fails."""

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
    """A function by its name `module:function`, and the folder that its module stands in.

    It is this that travels to the workers, not the function: a worker imports the module from the same folder, or from its
    own Python path where it has no such folder.
    """

    name: str
    folder: str

    def load(self) -> Callable[..., Any]:
        """Return the function; whatever the module raises is raised."""
        return _load_again(self.name, self.folder)


@lru_cache
def _load_again(name: str, folder: str) -> Callable[..., Any]:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def find_function(view: str, name: str, arguments: tuple[str, ...]) -> UserFunction:
    """Return the function that the workers will call with these arguments; SpecError where that cannot be."""
    function = load_function(view, name)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise fail(view, f"{name} must take {' and '.join(arguments)}: {error}") from error
    except ValueError:  # a function that is not Python's says nothing of what it takes
        pass
    return UserFunction(name, _find_folder(name.partition(":")[0]))


def _find_folder(module: str) -> str:
    top = sys.modules[module.partition(".")[0]]
    inside = list(getattr(top, "__path__", ()))
    return str(Path(inside[0] if inside else str(top.__file__)).resolve().parent)


def load_function(view: str, name: str) -> Callable[..., Any]:
    """Return the function; SpecError says why it is not there."""
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise fail(
                view,
                f"there is no module {module_name} on the Python path of the image, nor in spec.pythonFrom",
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
    """Return the error for a view whose function is wrong."""
    return SpecError(Reason.PYTHON_VIEW_FAILED, f"view {view!r}: {text}")
