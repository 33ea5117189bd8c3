"""What the driver's record keeps of its queries."""

from pathlib import Path

from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.sources.subscription import Subscription
from unit.runtime.checkpoints import build_revision

FLIGHTS, TAPS = ("flights", Subscription(("in",))), ("taps", Subscription(("more",)))


def test_a_source_that_a_sink_does_not_read_any_more_holds_no_position(tmp_path: Path) -> None:
    record = DriverRecord(build_revision(tmp_path), 1)
    record.set_reads({"counts": (FLIGHTS,), "all": (FLIGHTS, TAPS)})
    record.set_committed("counts", {"flights": {("in", 0): 50}, "taps": {("more", 0): 3}})
    record.set_committed("all", {"flights": {("in", 0): 60}, "taps": {("more", 0): 70}})
    assert list(record.positions()) == [{("in", 0): 50}, {("in", 0): 60}, {("more", 0): 70}]
