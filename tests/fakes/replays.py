"""What a driver reports while it replays."""

from datetime import datetime

from kappa_crds.progress import DriverState, Progress, QueryProgress, SourceProgress


def report_replay(
    topic: str, position: int, end: int, since: datetime, replayed_until: datetime | None
) -> Progress:
    """Return what a driver reports that replays partition 0: its next offset, the end, and the time up to which it has read."""
    source = SourceProgress(
        name="events", topic=topic, end_offsets={topic: {0: position}}, latest_offsets={topic: {0: end}}
    )
    query = QueryProgress(
        sink="log", query_id="q", run_id="r", batch_id=1, timestamp=since, sources=(source,)
    )
    return Progress(
        namespace="shop",
        pipeline="delays",
        revision="r",
        generation=2,
        state=DriverState.RUNNING,
        started_at=since,
        queries=(query,),
        replaying=True,
        replayed_until=replayed_until,
    )
