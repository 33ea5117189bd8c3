"""Functions in Python that are called with a batch of a column's values at a time, as an Arrow array."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType


def map_batches(function: Callable[[pa.Array], pa.Array], result: DataType | str, column: Column) -> Column:
    """Return what a function makes of a column. Spark knows its kind by its type hints, so it must have them."""
    call: Callable[[Column], Column] = arrow_udf(function, result)  # type: ignore[call-overload]
    return call(column)
