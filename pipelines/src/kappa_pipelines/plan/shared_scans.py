"""Queries that name a source several times and read it once (ADR 104).

Parts of a source in a union become one part, by the runtime's module in Java: each row comes once for every part. The join of two parts
within a time interval is a step over their union, so it reads the source once too.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame

from kappa_pipelines.revision.settings import SHARED_SCANS
from kappa_pipelines.transforms.java_module import explain_absence


def find_repeated(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources that are in a list several times."""
    return tuple(name for name, count in Counter(sources).items() if count > 1)


def share_scans(rows: DataFrame, sources: Collection[str]) -> DataFrame | None:
    """Return rows that read each of these sources once; None if that cannot be."""
    if not sources:
        return rows
    if explain_absence(rows.sparkSession, SHARED_SCANS) is not None:
        return None
    jvm: Any = rows.sparkSession._jvm
    made = jvm.kappa.plan.SharedScans.share(rows._jdf, " ".join(sources))
    return None if made is None else DataFrame(made, rows.sparkSession)
