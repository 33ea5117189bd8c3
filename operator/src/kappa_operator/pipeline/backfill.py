"""The history of a sink that is added: its query reads the log from the start, in the active driver (ADR 78).

Each sink has a query with a checkpoint of its own, so the others continue where they are, and the new one needs no handover at the end.
"""

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import AT_WORK, PipelineStatus
from kappa_crds.progress import DriverState, Progress
from kappa_crds.replay import REPLAY_RECORDS, ReplayProfile
from kappa_crds.revision import Revision
from kappa_crds.source import Source

_ALIKE = ("dead_letter", "python_from", "image", "reprocess_nonce")


def list_added_sinks(before: PipelineSpec, after: PipelineSpec) -> tuple[str, ...]:
    """Return the sinks that a change adds, where it leaves all that the other sinks compute as it is; else none.

    A new sink that writes to a topic of another one would mix its history with those rows.
    """
    known = {sink.name for sink in before.sinks}
    added = tuple(sink for sink in after.sinks if sink.name not in known)
    written = sorted(topic for _, topic in before.written)
    is_alike = (
        all(getattr(before, name) == getattr(after, name) for name in _ALIKE)
        and set(map(_strip_start, before.sources)) <= set(map(_strip_start, after.sources))
        and all(view in after.views for view in before.views)
        and all(sink in after.sinks for sink in before.sinks)
        and written == sorted(topic for _, topic in after.written if topic in written)
    )
    return tuple(sink.name for sink in added) if is_alike else ()


def _strip_start(source: Source) -> str:
    return source.model_copy(update={"starting_offsets": "earliest"}).model_dump_json()


def find_backfill(before: Revision | None, after: Revision) -> tuple[str, ...]:
    """Return the sinks whose history the active driver computes after a change; none where a Reprocessing has to."""
    if before is None or before.outputs != after.outputs or before.modules != after.modules:
        return ()
    return list_added_sinks(before.spec, after.spec)


def list_backfilled(status: PipelineStatus, revision: Revision) -> tuple[str, ...]:
    """Return the sinks of a revision that were added, whether they are near the end of the log by now or not."""
    change = status.upgrade
    is_change = change is not None and change.revision == revision.name
    added = change.backfill if change is not None and is_change else ()
    return tuple(sink.name for sink in revision.spec.sinks if sink.name in (*status.active.backfill, *added))


def build_backfill_profile(
    status: PipelineStatus, spec: PipelineSpec, revision: Revision
) -> ReplayProfile | None:
    """Return how the active driver reads the log for sinks that were added; None without one.

    A driver that starts when they are near the end of the log finds that with its first lookup.
    """
    sinks = list_backfilled(status, revision)
    most = spec.upgrade.reprocessing.replay.max_records or spec.trigger.max_records or REPLAY_RECORDS
    return ReplayProfile(max_records=most, sinks=sinks) if sinks else None


def list_added_topics(status: PipelineStatus, spec: PipelineSpec) -> tuple[str, ...]:
    """Return the topics, by their names in the spec, that a change under way adds to a version of the outputs, where no resource declares them."""
    change = status.upgrade
    if change is None or change.phase not in AT_WORK or not status.active.outputs:
        return ()
    known = {each.name for each in status.outputs}
    return tuple(sorted({topic for _, topic in spec.written} - known))


def has_backfill(status: PipelineStatus) -> bool:
    """Return whether the active run, or the last change, has sinks that were added."""
    return bool(status.active.backfill) or (status.upgrade is not None and bool(status.upgrade.backfill))


def reads_history(status: PipelineStatus, progress: Progress | None) -> bool:
    """Return whether a sink that was added reads the log, or may do so soon: until the active driver reports that none does."""
    change = status.upgrade
    if change is not None and change.backfill and change.phase in AT_WORK:
        return True
    if not status.active.backfill:
        return False
    is_current = progress is not None and progress.generation == status.active.generation
    return (
        progress is None or not is_current or progress.state is not DriverState.RUNNING or progress.replaying
    )
