"""Late records of a run on this machine: the records that a driver would write, collected in this process."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.laptop.endpoints import checkpoint_folder
from kappa_pipelines.plan.compile import Compiled
from kappa_pipelines.plan.endpoints import Endpoints
from kappa_pipelines.plan.late_rows import LateRecordRows
from kappa_pipelines.side_outputs.late_records.letters import build_late_records
from kappa_pipelines.sinks.record_headers import HEADER_PREFIX
from kappa_pipelines.sources.batches import Batch, read_batch


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A late row, with the headers of its record."""

    view: str
    row: dict[str, Any]
    headers: dict[str, str]

    @property
    def fields(self) -> dict[str, Any]:
        """Return the row's columns and the headers."""
        return {**self.headers, **self.row}


class LateRecordCollector:
    """Records what batches read while the offset log has it, and finds their late records at the end."""

    def __init__(self, spark: SparkSession, revision: Revision, folder: Path, ends: Endpoints) -> None:
        self._spark = spark
        self._revision = revision
        self._ends = ends
        self._files = LocalFolder(str(checkpoint_folder(folder)))
        self._batches: dict[str, dict[int, Batch]] = {}

    def note(self, sink: str, number: int) -> Batch | None:
        """Record a batch while it runs, and return it; one that is repeated is the same again."""
        batch = read_batch(self._files, sink, number)
        if batch is not None and self._revision.spec.side_outputs:
            self._batches.setdefault(sink, {})[number] = batch
        return batch

    def find(self, compiled: Compiled) -> list[LateRecord]:
        """Return the late records of all batches, by view, in the order of their records."""
        found: list[LateRecord] = []
        for view in compiled.late_records:
            noted = self._batches.get(view.owner, {})
            batches = [noted[number] for number in sorted(noted)]
            if not batches:
                continue
            plan = LateRecordRows(self._spark, self._revision.spec, compiled.sources, view)
            rows = plan.build(partial(self._ends.read_batches, batches=batches))
            records = build_late_records(rows, self._revision.full_name, view.name)
            headers = f.transform_values(f.map_from_entries("headers"), lambda _, value: value.cast("string"))
            read = records.select("key", "value", headers.alias("headers")).collect()
            found += [_parse(view.name, record.value, record.headers) for record in sorted(read)]
        return found


def _parse(view: str, value: str, headers: dict[str, str]) -> LateRecord:
    own = {name.removeprefix(HEADER_PREFIX): text for name, text in headers.items()}
    return LateRecord(view, json.loads(value), own)
