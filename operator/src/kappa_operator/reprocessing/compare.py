"""The phase Comparing: both versions are brought to one input, continue, and the driver of the new version compares the outputs."""

from collections.abc import Iterator
from datetime import datetime

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, OutputRange, Semantics, StreamWindows
from kappa_crds.permissions import name_version
from kappa_crds.progress import ComparisonProgress, ComparisonState
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ComparisonStatus, ReprocessingPhase, SinkComparison, read_positions
from kappa_crds.sink import OutputMode, Sink
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, CompareOutputs
from kappa_operator.engine.plan import Plan, working
from kappa_operator.errors import DriverRefused
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.reprocessing.cut import continue_drivers, reach_cut
from kappa_operator.reprocessing.model import ReprocessingObserved, enter, record, report

Phase = ReprocessingPhase
_MOST_STARTS = 3
"""Partitions that a message names."""


def compare(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Record the cut of the comparison, request it for each sink, and record what was found."""
    if observed.phase is not Phase.COMPARING or observed.pipeline is None:
        return None
    known, since = observed.status.comparison, observed.status.since
    if known is None or (since is not None and known.cut.taken < since):
        return _take_cut(observed, now)
    refused = next((each.error for each in observed.failures if isinstance(each.error, DriverRefused)), None)
    if refused is not None:
        sinks = tuple(
            SinkComparison(sink=each.name, message=refused.message) for each in observed.pipeline.spec.sinks
        )
        return _conclude(observed, known, sinks, now)
    if observed.failure:
        return _wait(observed, f"the comparison cannot be requested: {observed.failure}; it is retried", now)
    held = continue_drivers(observed)
    requests = list(build_requests(observed, observed.pipeline, known))
    found = _find_progress(observed)
    missing = [request for _, request in requests if request.name not in found]
    open_ = [
        each for each in found.values() if each.state not in (ComparisonState.DONE, ComparisonState.FAILED)
    ]
    if missing or open_ or held:
        actions: tuple[Action, ...] = (*held, *_request(observed, missing))
        plan = _wait(
            observed,
            next(
                (f"the outputs are compared: {each.step}" for each in open_ if each.step),
                "the outputs are compared",
            ),
            now,
        )
        return Plan(actions, plan.status, plan.requeue_after)
    return _conclude(
        observed, known, tuple(_summarize(sink, found[each.name]) for sink, each in requests), now
    )


def _take_cut(observed: ReprocessingObserved, now: datetime) -> Plan:
    reaching = reach_cut(observed, now)
    if reaching.cut is not None:
        number = 1 if observed.status.comparison is None else observed.status.comparison.number + 1
        return record(observed, comparison=ComparisonStatus(number=number, cut=reaching.cut))
    message = f"{reaching.message}; {observed.failure}" if observed.failure else reaching.message
    plan = _wait(observed, message, now)
    return Plan(() if observed.failure else reaching.actions, plan.status, plan.requeue_after)


def _wait(observed: ReprocessingObserved, message: str, now: datetime) -> Plan:
    return report(observed, working(Phase.COMPARING, Reason.COMPARING, message), now, intervals.WORKING)


def build_requests(
    observed: ReprocessingObserved, pipeline: PipelineResource, known: ComparisonStatus
) -> Iterator[tuple[str, ComparisonRequest]]:
    """Yield the comparison of each sink that both versions have, as far as its topics have ends at the cut."""
    old, new = read_positions(known.cut.old), read_positions(known.cut.new)
    active = {each.name: each.topic for each in pipeline.status.outputs}
    version = 0 if observed.side is None else observed.side.run.outputs
    present = name_version(pipeline.status.active.outputs)
    for sink in pipeline.spec.sinks:
        topic = active.get(sink.target.topic)
        if topic is None:
            continue
        changed = topic.removesuffix(present) + name_version(version)
        if topic not in old or changed not in new:
            continue
        yield (
            sink.name,
            ComparisonRequest(
                name=f"{observed.resource.metadata.name}.{known.number}.{sink.name}",
                semantics=_find_semantics(sink),
                old=_build_range(topic, old[topic]),
                new=_build_range(changed, new[changed]),
                available=True,
                windows=_find_windows(sink, observed.resource.spec.comparison.windows),
                tolerance=observed.resource.spec.comparison.tolerance,
            ),
        )


def _find_semantics(sink: Sink) -> Semantics:
    """Return what the records of a sink mean: rows that are replaced or deleted by others make a table."""
    is_table = sink.mode is not OutputMode.APPEND or sink.target.tombstones is not None
    return Semantics.TABLE if is_table else Semantics.STREAM


def _find_windows(sink: Sink, windows: StreamWindows | None) -> StreamWindows | None:
    """Return the windows to compare a sink in: a table has none."""
    return None if _find_semantics(sink) is Semantics.TABLE else windows


def _build_range(topic: str, ends: dict[int, int]) -> OutputRange:
    return OutputRange(topic=topic, start=dict.fromkeys(ends, 0), end=ends)


def _find_progress(observed: ReprocessingObserved) -> dict[str, ComparisonProgress]:
    progress = None if observed.side is None else observed.side.progress
    return {} if progress is None else {each.name: each for each in progress.comparisons}


def _request(observed: ReprocessingObserved, missing: list[ComparisonRequest]) -> Iterator[CompareOutputs]:
    side = observed.side
    if side is not None and side.is_running and side.pod is not None and side.pod.address is not None:
        for request in missing:
            yield CompareOutputs(side.pod.ref, side.pod.address, observed.token, request)


def _conclude(
    observed: ReprocessingObserved, known: ComparisonStatus, sinks: tuple[SinkComparison, ...], now: datetime
) -> Plan:
    unknown = [each for each in sinks if each.summary is None or each.summary.undecided]
    rows = sum(each.summary.differing for each in sinks if each.summary is not None)
    message = describe(sinks)
    done = known.replace(sinks=sinks, unexpected=None if unknown or not sinks else rows, message=message)
    verdict = working(Phase.READY_TO_CUT, Reason.COMPARING, message)
    return enter(observed, Phase.READY_TO_CUT, verdict, now, comparison=done)


def _summarize(sink: str, progress: ComparisonProgress) -> SinkComparison:
    summary = None if progress.summary is None else progress.summary.shorten()
    failure = progress.failure.message if progress.failure is not None else ""
    return SinkComparison(sink=sink, summary=summary, message=failure or ("" if summary else "no result"))


def describe(sinks: tuple[SinkComparison, ...]) -> str:
    """Return the result in one line."""
    if not sinks:
        return "nothing was compared: no sink has outputs of both versions"
    return "; ".join(f"sink {each.sink}: {_describe(each)}" for each in sinks)


def _describe(each: SinkComparison) -> str:
    summary = each.summary
    if summary is None:
        return f"not compared: {each.message}"
    parts = {
        "equal": summary.equal, "changed": summary.changed, "only old": summary.only_old, "only new": summary.only_new,
        "expected": summary.expected, "undecided": summary.undecided,
    }  # fmt: skip
    counts = ", ".join(f"{count} {name}" for name, count in parts.items() if count or name == "equal")
    return f"{counts}{_describe_start(summary)}"


def _describe_start(summary: ComparisonSummary) -> str:
    """Return from where it was compared, where retention has deleted records before."""
    deleted = [
        f"{topic}/{part} from offset {offset}"
        for topic, starts in ((summary.old_topic, summary.old_start), (summary.new_topic, summary.new_start))
        for part, offset in sorted(starts.items(), key=lambda each: int(each[0]))
    ]
    if not deleted:
        return ""
    more = f" and {len(deleted) - _MOST_STARTS} more" if len(deleted) > _MOST_STARTS else ""
    since = "" if summary.since is None else f", windows from {summary.since:%Y-%m-%dT%H:%M:%SZ}"
    return f" (earlier records were deleted; compared: {', '.join(deleted[:_MOST_STARTS])}{more}{since})"
