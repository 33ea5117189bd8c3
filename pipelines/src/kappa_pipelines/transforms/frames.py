"""Views that are no single statement: made by the user's Python, or by operators that keep their state in Python."""

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.view import View
from kappa_pipelines.state import State
from kappa_pipelines.transforms.patterns.frame import build_pattern
from kappa_pipelines.transforms.python import call_function


def build_frame(spark: SparkSession, view: View) -> DataFrame | None:
    """Return the view's rows, or None where it is a statement.

    What it reads must be defined: else Spark's AnalysisException. SpecError where it does not fit.
    """
    if view.python is not None:
        reads = [spark.table(read) for read in view.python.reads]
        return call_function(view.name, view.python.function, reads)
    if view.pattern is not None:
        return build_pattern(spark, view.name, view.pattern)
    return None


def describe_state(view: View) -> State:
    """Return what a view that keeps state in Python keeps, for people, and until when."""
    if view.pattern is not None:
        within = view.pattern.within
        until = f"a match is found or {within} after its first event" if within else None
        return State(view.name, "events of unfinished matches", view.pattern.key, until)
    return State(view.name, "state of its own in Python", (), None)
