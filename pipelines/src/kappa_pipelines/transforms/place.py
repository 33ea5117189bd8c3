"""Where an expression stands in the manifest, for what is said of it."""

from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.failures.sql import explain_refusal


@dataclass(frozen=True)
class Place:
    """Where an expression stands in the manifest; it makes errors."""

    view: str
    field: str

    def fail(self, text: str, reason: Reason = Reason.INVALID_SQL) -> SpecError:
        """Return the error that says so here."""
        return SpecError(reason, f"view {self.view!r}, {self.field}: {text}")

    def explain(self, error: AnalysisException | ParseException) -> SpecError:
        """Return the error for what Spark refused here."""
        return explain_refusal(f"view {self.view!r}, {self.field}", read_sql_failure(error))
