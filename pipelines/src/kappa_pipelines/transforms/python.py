"""Python views: a function of the user's that is given DataFrames and returns one.

It is called while the pipeline is compiled. Whatever it raises is told with the line of the user's own code.
"""

import importlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError

_MESSAGE_LIMIT = 400  # characters of what an error says


def call_function(view: str, function: str, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return what the function makes of its inputs; SpecError says what is wrong with it, and where."""
    called = _load(view, function)
    try:
        rows: Any = called(*inputs)
    except Exception as error:
        raise _fail(view, f"{function} failed{_locate(error)}: {_describe(error)}") from error
    if not isinstance(rows, DataFrame):
        raise _fail(view, f"{function} returned {type(rows).__name__}, not a DataFrame")
    if not rows.isStreaming:
        raise _fail(
            view, f"{function} returned a DataFrame that is not made of the streams that it was given"
        )
    return rows


def _load(view: str, function: str) -> Callable[..., Any]:
    module_name, _, name = function.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise _fail(view, f"there is no module {module_name} on the Python path of the image") from error
        raise _fail(view, f"{module_name} cannot be imported{_locate(error)}: {_describe(error)}") from error
    except Exception as error:
        raise _fail(view, f"{module_name} cannot be imported{_locate(error)}: {_describe(error)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        there = ", ".join(
            sorted(key for key, value in vars(module).items() if callable(value) and key[0] != "_")
        )
        raise _fail(view, f"{module_name} has no function {name}; it has {there or 'none'}")
    return found  # type: ignore[no-any-return]


def _fail(view: str, text: str) -> SpecError:
    return SpecError(Reason.PYTHON_VIEW_FAILED, f"view {view!r}: {text}")


def _locate(error: Exception) -> str:
    """Return the innermost line that is neither ours nor of a library."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
        and "importlib" not in frame.filename
        and Path(frame.filename) != Path(__file__)
    ]
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())
    return f"{type(error).__name__}: {text[:_MESSAGE_LIMIT]}"
