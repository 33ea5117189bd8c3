"""Savepoints as text for people."""

from collections.abc import Iterable

from rich.table import Table

from kappa_crds.conditions import EXPORTED, VERIFIED, find_condition
from kappa_crds.quantities import format_count
from kappa_operator.cli.output import start_table
from kappa_operator.savepoint.objects import SavepointResource


def build_table(
    savepoints: Iterable[SavepointResource], *, with_namespace: bool = False, wide: bool = False
) -> Table:
    """Return one line for each savepoint."""
    columns = ("NAME", "PIPELINE", "STATE", "CAUSE", "SIZE", "TAKEN", "VERIFIED")
    more = ("LOCATION",) if wide else ()
    table = start_table((*(("NAMESPACE",) if with_namespace else ()), *columns, *more))
    for savepoint in savepoints:
        spec, status = savepoint.spec, savepoint.status
        taken = f"{status.taken:%Y-%m-%d %H:%M:%S}" if status.taken else "-"
        verified = f"{status.last_verified:%Y-%m-%d %H:%M:%S}" if status.last_verified else "-"
        table.add_row(
            *((savepoint.metadata.namespace,) if with_namespace else ()),
            savepoint.metadata.name, spec.pipeline_ref, status.state or "-", spec.cause, status.size or "-", taken, verified,
            *((status.location or "-",) if wide else ()),
        )  # fmt: skip
    return table


def build_view(savepoint: SavepointResource) -> Table:
    """Return one line for each property of a savepoint."""
    spec, status = savepoint.spec, savepoint.status
    table = Table(box=None, show_header=False, pad_edge=False)
    lines = {
        "name": savepoint.metadata.name,
        "pipeline": spec.pipeline_ref,
        "cause": spec.cause,
        "state": status.state or "-",
        "taken": str(status.taken or "-"),
        "revision": status.revision or "-",
        "batches": ", ".join(f"{each.batch} of {each.sink}" for each in status.queries) or "-",
        "size": status.size or "-",
        "location": status.location or "-",
        "PVC": status.claim_name or "-",
        "when deleted": "the files are removed" if spec.deletion_policy == "Delete" else "the files are kept",
        "copies": ", ".join(f"{each.store_ref}: {each.state}" for each in status.exports) or "-",
        "state rows": ", ".join(f"{format_count(r.rows)} of {r.sink}/{r.name}" for r in status.state_rows)
        or "-",
    }
    for name, text in lines.items():
        table.add_row(name, text)
    for kind in ("Ready", VERIFIED, EXPORTED):
        condition = find_condition(status.conditions, kind)
        if condition is not None:
            table.add_row(kind, f"{condition.status}, {condition.reason}: {condition.message}")
    return table
