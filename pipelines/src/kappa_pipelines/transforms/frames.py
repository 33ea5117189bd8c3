"""Views that are no single statement: made by the user's Python, or by operators that keep their state in Python."""

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.view import View
from kappa_pipelines.state import State
from kappa_pipelines.transforms.python import call_function
from kappa_pipelines.transforms.search.frame import build_search, describe_search


def build_frame(spark: SparkSession, view: View) -> DataFrame | None:
    """Return the view's rows, or None where it is a statement.

    What it reads must be defined: else Spark's AnalysisException. SpecError where it does not fit.
    """
    if view.python is not None:
        reads = [spark.table(read) for read in view.python.reads]
        return call_function(view.name, view.python.function, reads)
    if view.search is not None:
        return build_search(spark, view.name, view.search)
    return None


def describe_state(view: View) -> State:
    """Return what a view that keeps state in Python keeps, for people, and until when."""
    if view.search is not None:
        return describe_search(view.name, view.search.queries)
    return State(view.name, "state of its own in Python", (), None)


def describe_cost(view: View) -> str | None:
    """Return what people should know of a view's cost, None where its state says it all."""
    if view.search is None:
        return None
    return (
        "tests a document against the queries that share a word or number with it, and against all that need none,"
        " such as those of NOT or ranges alone"
    )
