"""Where a reading goes over from the archive to the log: at one offset of each partition, without gap or overlap."""

from collections.abc import Mapping, Sequence

from kappa_crds.reasons import Reason
from kappa_pipelines.archive.segments import Segment, find_end
from kappa_pipelines.errors import LostDataError


def find_seams(
    topic: str,
    segments: Mapping[int, Sequence[Segment]],
    starts: Mapping[int, int],
    begins: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Return the first offset of each partition that is read from the log.

    `starts` are the starts of the logs, `begins` the offsets where the reading begins, 0 by default. All that is archived is read from
    there, as nothing removes it meanwhile. LostDataError names the offsets that neither has.
    """
    seams, gaps = {}, []
    for partition, start in sorted(starts.items()):
        begin = (begins or {}).get(partition, 0)
        own = segments.get(partition, ())
        seam = find_end(own, begin)
        if seam < start:
            later = min((each.first for each in own if each.first > seam), default=start)
            gaps.append(f"partition {partition}: offsets {seam:,} to {min(later, start) - 1:,}")
        seams[partition] = seam
    if gaps:
        listed = "; ".join(gaps[:10]) + (f"; and {len(gaps) - 10} more partitions" if len(gaps) > 10 else "")
        raise LostDataError(
            Reason.OFFSETS_LOST, f"topic {topic}: neither the archive nor the log has these records: {listed}"
        )
    return seams
