"""The path of an expression in a spec, for error messages."""

from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.failures.sql import explain_refusal


@dataclass(frozen=True)
class SpecPath:
    """The path of an expression in a spec."""

    view: str
    field: str

    @property
    def text(self) -> str:
        """Return the path as it is in messages."""
        return f"view {self.view!r}, {self.field}"

    def fail(self, text: str, reason: Reason = Reason.INVALID_SQL) -> SpecError:
        """Return an error at this path."""
        return SpecError(reason, f"{self.text}: {text}")

    def explain(self, error: AnalysisException | ParseException) -> SpecError:
        """Return the error for Spark's refusal of the expression."""
        return explain_refusal(self.text, read_sql_failure(error))
