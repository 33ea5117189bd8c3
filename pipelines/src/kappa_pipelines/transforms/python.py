"""Python views: a user function from DataFrames to a DataFrame.

It is called while the pipeline is compiled. Its errors are reported with the line of the user's code.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from kappa_pipelines.failures.python import describe, locate
from kappa_pipelines.transforms.functions import fail, load_function


def call_function(view: str, function: str, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return the function's result; SpecError if it fails or returns something else."""
    called = load_function(view, function)
    try:
        rows: Any = called(*inputs)
    except Exception as error:
        raise fail(view, f"{function} failed{locate(error)}: {describe(error)}") from error
    if not isinstance(rows, DataFrame):
        raise fail(view, f"{function} returned {type(rows).__name__}, not a DataFrame")
    if not rows.isStreaming:
        raise fail(view, f"{function} returned a DataFrame that is not a stream over its inputs")
    return rows
