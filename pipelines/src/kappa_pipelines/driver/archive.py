"""Which sources a new version reads from their archive before the log, and from which offset on it reads the log (ADR 71).

It is decided at each start, from the committed offsets and the logs as they are: an archive is read only where the log does not have the
next record any more. So a driver that is killed before or behind the seam continues where its checkpoint is.
"""

from collections.abc import Mapping

import structlog

from kappa_crds.replay import ArchivedSource, ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.archive.seam import find_seams
from kappa_pipelines.archive.segments import list_segments, name_topic_folder
from kappa_pipelines.archive.source import ArchiveRead
from kappa_pipelines.checkpoint.format.offsets import Offsets, read_committed_batch, read_committed_offsets
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.kafka.bounds import LogBounds
from kappa_pipelines.kafka.subscription import Subscription

log = structlog.get_logger()


def find_archives(revision: Revision, files: Folder, profile: ReplayProfile | None) -> dict[str, ArchiveRead]:
    """Return what is read of archives, by source; LostDataError where neither archive nor log has a record.

    Raises KafkaException.
    """
    if profile is None or not profile.archives:
        return {}
    bounds, found = LogBounds(revision), {}
    for each in profile.archives:
        starts = {part: at for (_, part), at in bounds.first([Subscription((each.topic,))]).items()}
        begins = _find_positions(revision, files, each, starts)
        if any(begins[part] < start for part, start in starts.items()):
            found[each.source] = _build_read(revision, each, starts, begins)
    return found


def _find_positions(
    revision: Revision, files: Folder, archived: ArchivedSource, starts: Mapping[int, int]
) -> dict[int, int]:
    """Return the lowest committed offset of each partition over all queries; 0 before the first commit of a query."""
    lowest: dict[int, int] = {}
    for sink in revision.spec.sinks:
        if read_committed_batch(files, sink.name) < 0:
            return dict.fromkeys(starts, 0)
        offsets = read_committed_offsets(files, sink.name).get(archived.source)
        for part in starts if offsets is not None else ():
            position = (offsets or {}).get((archived.topic, part), 0)
            lowest[part] = min(position, lowest.get(part, position))
    return {part: lowest.get(part, 0) for part in starts}


def _build_read(
    revision: Revision, archived: ArchivedSource, starts: Mapping[int, int], begins: Mapping[int, int]
) -> ArchiveRead:
    folder = f"{archived.location}/{name_topic_folder(archived.topic, archived.topic_id)}"
    segments = list_segments(open_folder(folder, revision.connection))
    seams = find_seams(archived.topic, segments, starts, begins)
    log.info("an archive is read before the log", source=archived.source, begins=begins, seams=seams)
    return ArchiveRead(folder, archived.topic, begins, seams)


def has_read(read: ArchiveRead, committed: Offsets | None) -> bool:
    """Return whether a query has committed all that it reads of an archive."""
    known = committed or {}
    return all(known.get((read.topic, part), 0) >= seam for part, seam in read.seams.items())
