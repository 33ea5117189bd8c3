"""What a Reprocessing requests of a comparison, and how it reports the result."""

from datetime import UTC, datetime

from kappa_crds.comparison import ComparisonSummary, Semantics, StreamWindows
from kappa_crds.reprocessing import SinkComparison
from kappa_operator.reprocessing.compare import describe
from unit.control.lives import both, write
from unit.control.reprocessings import FIXED, SPEC, live, pause_at


def test_the_report_has_from_where_an_output_was_compared_whose_oldest_records_were_deleted() -> None:
    summary = ComparisonSummary(
        old_topic="out", new_topic="out.r1", equal=7, changed=1, old_start={"10": 3, "2": 5}
    )
    assert describe((SinkComparison(sink="log", summary=summary),)) == (
        "sink log: 7 equal, 1 changed (earlier records were deleted; compared: out/2 from offset 5, out/10 from offset 3)"
    )
    many = summary.replace(
        new_start={str(part): 9 for part in range(8)}, since=datetime(2026, 1, 5, 12, tzinfo=UTC)
    )
    text = describe((SinkComparison(sink="log", summary=many),))
    assert text.endswith("out.r1/0 from offset 9 and 7 more, windows from 2026-01-05T12:00:00Z)")


async def test_what_was_deleted_is_left_out_and_streams_are_compared_by_the_windows_of_the_policy() -> None:
    policy = {**FIXED["upgrade"]["reprocessing"], "comparison": {"windows": {"column": "hour"}}}
    spec = {**FIXED, "upgrade": {**FIXED["upgrade"], "reprocessing": policy}}
    life = await live(write(SPEC), both(pause_at("ReadyToCut"), write(spec)))
    (request,) = life.operator.drivers.compared
    assert (request.available, request.semantics) == (True, Semantics.STREAM)
    assert request.windows == StreamWindows(column="hour")
