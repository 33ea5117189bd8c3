"""The phase Comparing: both versions are brought to one input, continue, and the driver of the new version compares the outputs."""

from collections.abc import Iterator
from datetime import datetime

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, OutputRange, Semantics
from kappa_crds.permissions import name_version
from kappa_crds.progress import ComparisonProgress, ComparisonState
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ComparisonStatus, ReprocessingPhase, SinkComparison, read_positions
from kappa_operator import intervals
from kappa_operator.engine.actions import CompareOutputs
from kappa_operator.engine.plan import Plan, working
from kappa_operator.errors import DriverRefused
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.reprocessing.cut import continue_drivers, reach_cut
from kappa_operator.reprocessing.model import ReprocessingObserved, enter, record, record_parties, report

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
        results = [
            tuple(
                SinkComparison(sink=sink.name, message=refused.message)
                for sink in (party.pipeline.spec.sinks if party.pipeline is not None else ())
            )
            for party in observed.parties
        ]
        return _conclude(observed, results, now)
    if observed.failure:
        return _wait(observed, f"the comparison cannot be requested: {observed.failure}; it is retried", now)
    held = continue_drivers(observed)
    requests = [_list_requests(party) for party in observed.parties]
    found = [_find_progress(party) for party in observed.parties]
    missing = [
        action
        for party, each, progress in zip(observed.parties, requests, found, strict=True)
        for action in _request(party, [request for _, request in each if request.name not in progress])
    ]
    open_ = [
        each
        for progress in found
        for each in progress.values()
        if each.state not in (ComparisonState.DONE, ComparisonState.FAILED)
    ]
    is_complete = all(
        request.name in progress
        for each, progress in zip(requests, found, strict=True)
        for _, request in each
    )
    if not is_complete or open_ or held:
        step = next((f"the outputs are compared: {each.step}" for each in open_ if each.step), "")
        plan = _wait(observed, step or "the outputs are compared", now)
        return Plan((*held, *missing), plan.status, plan.requeue_after)
    results = [
        tuple(_summarize(sink, progress[request.name]) for sink, request in each)
        for each, progress in zip(requests, found, strict=True)
    ]
    return _conclude(observed, results, now)


def _list_requests(party: ReprocessingObserved) -> list[tuple[str, ComparisonRequest]]:
    known = party.status.comparison
    return (
        [] if party.pipeline is None or known is None else list(build_requests(party, party.pipeline, known))
    )


def _take_cut(observed: ReprocessingObserved, now: datetime) -> Plan:
    reaching = reach_cut(observed, now)
    if reaching.cuts:
        number = 1 if observed.status.comparison is None else observed.status.comparison.number + 1
        taken = [{"comparison": ComparisonStatus(number=number, cut=cut)} for cut in reaching.cuts]
        return record(observed, **record_parties(observed, taken))
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
                semantics=Semantics.TABLE if sink.is_table else Semantics.STREAM,
                old=_build_range(topic, old[topic]),
                new=_build_range(changed, new[changed]),
                available=True,
                windows=None if sink.is_table else observed.resource.spec.comparison.windows,
                since=observed.resource.spec.compared_since,
                tolerance=observed.resource.spec.comparison.tolerance,
            ),
        )


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
    observed: ReprocessingObserved, results: list[tuple[SinkComparison, ...]], now: datetime
) -> Plan:
    """Record the result of each party, and that of all with the first pipeline, where its gate and people look for it."""
    counts, messages, done = [_count(sinks) for sinks in results], [], []
    spec = observed.resource.spec
    for party, sinks, count in zip(observed.parties, results, counts, strict=True):
        message = describe(sinks, spec.from_, spec.rows)
        messages.append(f"Pipeline {party.name}: {message}" if observed.is_chain else message)
        known = party.status.comparison
        if known is not None:
            done.append({"comparison": known.replace(sinks=sinks, unexpected=count, message=message)})
    total = sum(each for each in counts if each is not None) if None not in counts else None
    message = "; ".join(messages)
    done[0]["comparison"] = done[0]["comparison"].replace(unexpected=total, message=message)
    verdict = working(Phase.READY_TO_CUT, Reason.COMPARING, message)
    return enter(observed, Phase.READY_TO_CUT, verdict, now, **record_parties(observed, done))


def _count(sinks: tuple[SinkComparison, ...]) -> int | None:
    """Return how many rows differ and are not expected; None where that is not known."""
    if not sinks or any(each.summary is None or each.summary.undecided for each in sinks):
        return None
    return sum(each.summary.differing for each in sinks if each.summary is not None)


def _summarize(sink: str, progress: ComparisonProgress) -> SinkComparison:
    summary = None if progress.summary is None else progress.summary.shorten()
    failure = progress.failure.message if progress.failure is not None else ""
    return SinkComparison(sink=sink, summary=summary, message=failure or ("" if summary else "no result"))


def describe(sinks: tuple[SinkComparison, ...], start: str | None = None, rows: str = "") -> str:
    """Return the result in one line; `start` is the time from which the new version has read records, and `rows` are those that it has."""
    if not sinks:
        return "nothing was compared: no sink has outputs of both versions"
    found = "; ".join(f"sink {each.sink}: {_describe(each)}" for each in sinks)
    found += f"; {rows}" if rows else ""
    if start is None:
        return found
    doubted = any(each.summary and each.summary.undecided and each.summary.since is None for each in sinks)
    doubt = ", so a row that only the old one has is undecided" if doubted else ""
    return f"{found}; the new version has read records from {start} on{doubt}"


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
    """Return from where it was compared, where a version lacks rows before."""
    since = "" if summary.since is None else f"windows from {summary.since:%Y-%m-%dT%H:%M:%SZ}"
    deleted = [
        f"{topic}/{part} from offset {offset}"
        for topic, starts in ((summary.old_topic, summary.old_start), (summary.new_topic, summary.new_start))
        for part, offset in sorted(starts.items(), key=lambda each: int(each[0]))
    ]
    if not deleted:
        return since and f" ({since})"
    more = f" and {len(deleted) - _MOST_STARTS} more" if len(deleted) > _MOST_STARTS else ""
    return f" (earlier records were deleted; compared: {', '.join(deleted[:_MOST_STARTS])}{more}{since and f', {since}'})"
