"""The bounds of batches that a driver hands to the next one (ADR 96)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kappa_crds.progress import QueryProgress
from kappa_pipelines.checkpoint.fence.fence import BATCHES
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.driver.batch_bounds import BatchBounds
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.reporting.progress import fold_event

FIRST = 1_000_000


def start(folder: Path, content: str = "a") -> BatchBounds:
    """Return the bounds of a driver that starts."""
    bounds = BatchBounds(LocalFolder(str(folder)), content, FIRST)
    bounds.read()
    return bounds


def end_batch(bounds: BatchBounds, records: int | None, sink: str = "out") -> None:
    """Report a batch of a query, after which the next one has so many records."""
    metrics = {} if records is None else {"maxRecords": str(records)}
    event = {
        "name": sink,
        "id": "1",
        "runId": "1",
        "batchId": 7,
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        "sources": [{"description": "KafkaV2[Subscribe[t]]", "metrics": metrics}, {"description": "other"}],
    }
    bounds.note(fold_event(None, event, ()))
    bounds.write()


def test_a_driver_begins_with_the_bounds_that_the_previous_one_has_measured(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first.find("out") is None
    end_batch(first, 90_000)
    end_batch(first, 4_000_000, "other")
    found = start(tmp_path)
    assert (found.find("out"), found.find("other"), found.find("new")) == (90_000, 4_000_000, None)


@pytest.mark.parametrize(("measured", "begun"), [(90_000, 90_000), (4_000_000, FIRST)])
def test_after_a_change_of_the_revision_only_a_low_bound_counts(
    tmp_path: Path, measured: int, begun: int
) -> None:
    end_batch(start(tmp_path), measured)
    assert start(tmp_path, "b").find("out") == begun


def test_a_bound_of_a_changed_revision_is_kept_until_it_moves_and_then_those_of_all_queries_are_its_own(
    tmp_path: Path,
) -> None:
    former = start(tmp_path)
    end_batch(former, 4_000_000)
    end_batch(former, 4_000_000, "other")
    changed = start(tmp_path, "b")
    end_batch(changed, 4_000_000)
    again = start(tmp_path, "b")
    assert (again.find("out"), again.find("other")) == (4_000_000, FIRST)


def test_what_is_not_measured_or_has_hardly_changed_is_not_stored(tmp_path: Path) -> None:
    bounds = start(tmp_path)
    end_batch(bounds, FIRST)
    end_batch(bounds, None)
    assert not (tmp_path / BATCHES).exists()
    for records in (100_000, 110_000, 124_000, 81_000):
        end_batch(bounds, records)
    assert start(tmp_path).find("out") == 100_000
    end_batch(bounds, 80_000)
    assert start(tmp_path).find("out") == 80_000


@pytest.mark.parametrize(
    "held",
    [b"", b"{", b"[]", b"7", b'{"records": 7}', b'{"records": {"out": "x"}}', b'{"records": {"out": 0}}'],
)
def test_a_damaged_file_costs_one_more_measure(tmp_path: Path, held: bytes) -> None:
    LocalFolder(str(tmp_path)).write(BATCHES, held)
    bounds = start(tmp_path)
    assert bounds.find("out") is None
    end_batch(bounds, 90_000)
    assert start(tmp_path).find("out") == 90_000


class FullFolder(LocalFolder):
    """A folder on a full disk."""

    def write(self, path: str, held: bytes) -> None:
        raise UnavailableError("StoreUnavailable", f"{path}: no space left on device")  # type: ignore[arg-type]


def test_a_store_that_is_full_ends_no_driver(tmp_path: Path) -> None:
    bounds = BatchBounds(FullFolder(str(tmp_path)), "a", FIRST)
    end_batch(bounds, 90_000)
    assert bounds.find("out") == 90_000


def test_progress_has_no_bound_where_the_time_of_a_batch_bounds_nothing() -> None:
    assert QueryProgress.model_fields["max_records"].default is None
