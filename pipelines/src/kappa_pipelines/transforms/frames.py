"""Views that are no single statement: made by the user's Python, or by operators that keep their state in Python."""

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.view import View
from kappa_pipelines.state import State
from kappa_pipelines.transforms.lookup import build_lookup, describe_lookup
from kappa_pipelines.transforms.projection import build_projection
from kappa_pipelines.transforms.python import call_function
from kappa_pipelines.transforms.sourcing import build_sourcing
from kappa_pipelines.transforms.table_join import build_table_join, describe_table_join
from kappa_pipelines.transforms.window import build_corrected, is_corrected


def build_frame(spark: SparkSession, view: View) -> DataFrame | None:
    """Return the view's rows, or None where it is a statement.

    What it reads must be defined: else Spark's AnalysisException. SpecError where it does not fit.
    """
    if view.python is not None:
        reads = [spark.table(read) for read in view.python.reads]
        return call_function(view.name, view.python.function, reads)
    if view.lookup is not None:
        return build_lookup(spark, view.name, view.lookup)
    if view.table_join is not None:
        return build_table_join(spark, view.name, view.table_join)
    if view.window is not None and is_corrected(view.window):
        return build_corrected(spark, view.name, view.window)
    if view.event_sourced is not None:
        return build_sourcing(spark, view.name, view.event_sourced)
    if view.projection is not None:
        return build_projection(spark, view.name, view.projection)
    return None


def describe_state(view: View) -> State:
    """Return what a view that keeps state in Python keeps, for people, and until when."""
    if view.lookup is not None:
        return describe_lookup(view.name, view.lookup)
    if view.table_join is not None:
        return describe_table_join(view.name, view.table_join)
    keyed = view.event_sourced or view.projection
    if keyed is not None:
        return State(view.name, "state of each aggregate", keyed.key, None)
    return State(view.name, "state of its own in Python", (), None)
