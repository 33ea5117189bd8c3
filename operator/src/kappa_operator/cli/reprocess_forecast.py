"""What a Reprocessing will do, before it starts: the proof of the log, the outputs, the room and the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.permissions import name_version
from kappa_crds.quantities import format_count, format_duration
from kappa_operator.cli.report_read import OperatorUnavailable, request_answer
from kappa_operator.cli.reprocess_plan import Start
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.log.proof import LogProof, Verdict
from kappa_operator.pipeline.upgrade.change import next_checkpoint
from kappa_operator.report.address import PROOF_PATH
from kappa_operator.reprocessing.objects import find_replay_executors


@dataclass(frozen=True)
class Forecast:
    """A start, the proof of the log or why there is none, and the rate of the last replay in records per second."""

    start: Start
    proof: LogProof | None = None
    problem: str = ""
    rate: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Return whether the log is whole."""
        return Verdict.UNKNOWN if self.proof is None or self.proof.problem else self.proof.verdict

    @property
    def records(self) -> int | None:
        """Return how many records are read; None where that is not known."""
        return None if self.proof is None else sum(source.records or 0 for source in self.proof.sources)

    @property
    def seconds(self) -> float | None:
        """Return how long the replay takes at the rate of the last one."""
        return None if self.records is None or not self.rate else self.records / self.rate

    @property
    def outputs(self) -> dict[str, str]:
        """Return the topics of the new version by those of the active one; a number that is taken is skipped."""
        status = self.start.present.status
        old, new = name_version(status.active.outputs), name_version(next_checkpoint(status))
        return {each.topic: each.topic.removesuffix(old) + new for each in status.outputs}

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return {
            "changed": self.start.is_changed,
            "verdict": self.verdict.value,
            "log": self.problem or (self.proof.message if self.proof else ""),
            "records": self.records,
            "seconds": self.seconds,
            "outputs": self.outputs,
            "policy": self.start.wanted.spec.upgrade.reprocessing.to_manifest(),
        }


async def forecast_start(api: ApiCluster, operator_namespace: str, start: Start) -> Forecast:
    """Return what a start will do; a proof of the log by the operator, for the sources as they are now."""
    metadata = start.present.metadata
    rate = await _find_rate(api, metadata.namespace, metadata.name)
    begin = start.wanted.spec.upgrade.reprocessing.from_ or "earliest"
    query = {"namespace": metadata.namespace, "pipeline": metadata.name, "start": begin}
    try:
        proof = await request_answer(api, operator_namespace, PROOF_PATH, query, LogProof)
    except OperatorUnavailable as error:
        return Forecast(start, problem=str(error), rate=rate)
    return Forecast(start, proof, proof.problem, rate)


async def _find_rate(api: ApiCluster, namespace: str, pipeline: str) -> float | None:
    """Return the rate of the newest replay of the pipeline that was measured."""
    bodies = await api.list_objects(API_VERSION, "Reprocessing", namespace)
    found = [
        find_kind("Reprocessing").parse(body).status
        for body in bodies
        if body["spec"].get("pipelineRef") == pipeline
    ]
    measured = [
        each.catch_up for each in found if each.catch_up is not None and each.catch_up.records_per_second
    ]
    newest = max(measured, key=lambda each: str(each.measured), default=None)
    return None if newest is None else newest.records_per_second


def describe_forecast(found: Forecast) -> Iterator[str]:
    """Yield it as lines."""
    start = found.start
    metadata, spec = start.present.metadata, start.wanted.spec
    policy, resources = spec.upgrade.reprocessing, spec.resources
    version = "the changed version" if start.is_changed else "the present version again"
    log = "the whole log" if policy.from_ is None else f"the log from {policy.from_} on, for a comparison"
    yield f"Pipeline {metadata.namespace}/{metadata.name}: a Reprocessing would compute {version} over {log}"
    if policy.rows:
        yield f"  rows     {policy.rows}, for a comparison"
    yield f"  log      {found.problem or (found.proof.message if found.proof else '')}"
    if start.present.spec.sources != start.wanted.spec.sources:
        yield "           (of the present sources; the changed ones are checked when it starts)"
    if found.records is not None:
        yield f"  records  {format_count(found.records)}{_describe_time(found)}"
    for old, new in found.outputs.items():
        yield f"  output   {new} beside {old}"
    more = find_replay_executors(spec)
    replaying = "" if more is None else f", {more} while it reads the log"
    yield f"  room     a second driver ({resources.driver.cpu} CPU, {resources.driver.memory}), {resources.executors.count} more executors{replaying}"
    gates = ", ".join(f"{name} {value}" for name, value in policy.gates.to_manifest().items()) or "cut Manual"
    yield f"  policy   gates: {gates}; soak {policy.soak}; outputs of the version that ends: {policy.outputs}; Pipelines that read the outputs: {policy.downstream}"
    yield "Nothing was changed."


def _describe_time(found: Forecast) -> str:
    if found.seconds is None:
        return "; the time is known once it reads: kappa reprocess watch"
    return (
        f"; about {format_duration(found.seconds)} at {found.rate:,.0f} records per second, as the last time"
    )
