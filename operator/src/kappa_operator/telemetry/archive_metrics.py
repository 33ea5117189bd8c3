"""Metrics of the archives of Topics, read from their status. A Topic without an archive has no series."""

from collections.abc import Callable

from kappa_crds.archive import ARCHIVED, ArchiveStatus
from kappa_crds.conditions import find_condition
from kappa_crds.reasons import Reason
from kappa_operator.archive.objects import TopicResource
from kappa_operator.telemetry.declare import Declared

_TOPIC = ("namespace", "topic")
MARK = b'"archive"'
"""What the JSON of a Topic with an archive has: others are not parsed for a scrape."""


def _read(read: Callable[[ArchiveStatus], float | None]) -> Callable[[TopicResource], float | None]:
    """Return a reader of the archive; there is none where the spec declares none."""

    def find(topic: TopicResource) -> float | None:
        known = topic.status.archive
        return None if topic.spec.archive is None or known is None else read(known)

    return find


def _read_at_risk(topic: TopicResource) -> float | None:
    if topic.spec.archive is None:
        return None
    condition = find_condition(topic.status.conditions, ARCHIVED)
    return float(condition is not None and condition.reason == Reason.ARCHIVE_BEHIND)


ARCHIVE_METRICS: tuple[Declared[TopicResource], ...] = (
    Declared("kappa_archive_at_risk", "1 while records are not archived for half of the retention of the Topic or longer, 0 else.", _TOPIC, _read_at_risk),
    Declared("kappa_archive_complete_timestamp_seconds", "All records that were in the log at this time are archived, Unix time; that of the beginning before the first run was complete.", _TOPIC, _read(lambda known: known.safe_until.timestamp())),
    Declared("kappa_archive_behind_records", "Offsets in the log that were not archived when the last run ended.", _TOPIC, _read(lambda known: known.behind)),
    Declared("kappa_archive_failures", "Runs of the archive that failed in a row.", _TOPIC, _read(lambda known: known.failures)),
    Declared("kappa_archive_size_bytes", "Bytes of all files of the archive.", _TOPIC, _read(lambda known: known.size_bytes)),
    Declared("kappa_archive_lost", "1 where records were removed before they were archived, 0 else.", _TOPIC, _read(lambda known: float(bool(known.lost)))),
)  # fmt: skip
