"""Truncations of tables with compacted topics: noticed by the checks, as no record shows them.

PostgreSQL gives a table a new file at `TRUNCATE`, and also where `VACUUM FULL`, `CLUSTER` or some forms of `ALTER TABLE` write it again.
Source: PostgreSQL, "Database File Layout". A partitioned table has no file of its own.
"""

from kappa_crds.reasons import Reason
from kappa_operator.cdc.shapes import unpack
from kappa_operator.cdc.work import DatabaseResult
from kappa_operator.cdcsource.model import CDCSourceObserved
from kappa_operator.engine.actions import EmitEvent

_MOST = 8


def fold_files(
    observed: CDCSourceObserved, result: DatabaseResult
) -> tuple[str | None, tuple[EmitEvent, ...]]:
    """Return the files of the tables after a check, with an Event about tables that have another one than before."""
    before, after = unpack(observed.resource.status.tables_files or ""), unpack(result.files)
    changed = [table for table, file in after.items() if before.get(table, file) != file]
    if not changed:
        return result.files or None, ()
    more = "" if len(changed) <= _MOST else f" and {len(changed) - _MOST} more"
    message = (
        f"truncated, created again, or rewritten by VACUUM FULL, CLUSTER or ALTER TABLE: {', '.join(changed[:_MOST])}{more}. Rows that a truncation"
        " removed stay in the compacted topic: kappa cdc reconcile lists them"
    )
    return result.files, (EmitEvent(Reason.TABLE_REWRITTEN, message, warning=True),)
