"""Views as SELECT statements."""

from pyspark.sql import SparkSession

from kappa_crds.view import View
from kappa_pipelines.transforms.as_of import build_as_of
from kappa_pipelines.transforms.inputs import read_input
from kappa_pipelines.transforms.sliding import build_sliding
from kappa_pipelines.transforms.window import build_window


def build_statement(spark: SparkSession, view: View) -> str:
    """Return the view's statement.

    AnalysisException if what an operator reads is not defined, SpecError if the view is invalid.
    """
    if view.sliding is not None:
        return build_sliding(spark, view.name, view.sliding, read_input(spark, view.sliding.from_))
    if view.as_of is not None:
        events, table = read_input(spark, view.as_of.from_), read_input(spark, view.as_of.table)
        return build_as_of(spark, view.name, view.as_of, events, table)
    if view.window is not None:
        return build_window(spark, view.name, view.window)
    assert view.sql is not None  # noqa: S101 - the model has exactly one
    return view.sql.strip().rstrip(";")
