"""The proof of a pipeline's log: what the operator asks Kafka for, and what the command shows of the answer."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fakes.context import START, Operator, build_resource
from kappa_operator.cli.app import app
from kappa_operator.cli.reprocess_check import build_data
from kappa_operator.cli.reprocess_check_view import build_check_view
from kappa_operator.engine.apply import apply_actions
from kappa_operator.errors import BrokerUnreachable
from kappa_operator.lag.groups import name_group
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.log.facts import PartitionFacts, Record
from kappa_operator.log.proof import Gap, LogProof, SourceProof, Verdict
from kappa_operator.pipeline.log import plan_holds, plan_release, prove_pipeline
from kappa_operator.pipeline.objects import PipelineResource
from unit.control.lives import CLUSTER, PIPELINE, SUSPENDED, TOPICS, Life
from unit.control.screens import render

IN = Partition("in", 0)
FIRST = Record(5, 1_700_000_000_000)


async def begin() -> tuple[Operator, PipelineResource]:
    """Return an operator with a pipeline that reads the topic `in`."""
    life = Life()
    await life.prepare()
    operator = life.operator
    operator.cluster.put(build_resource("Pipeline", "delays", **SUSPENDED))
    for key in (CLUSTER, *TOPICS, PIPELINE):
        await operator.reconcile(key)
    resource: PipelineResource | None = operator.cache.read(PIPELINE)
    assert resource is not None
    return operator, resource


def cut(operator: Operator) -> None:
    log = PartitionFacts(0, PartitionLog(5, 9, 9), FIRST, begin=0)
    operator.brokers["kafka:9092"].logs[IN] = log


async def test_a_pipeline_is_proven_by_the_logs_of_its_topics() -> None:
    operator, resource = await begin()
    assert (await prove_pipeline(operator.context, resource)).is_whole
    cut(operator)
    found = await prove_pipeline(operator.context, resource)
    assert found.gaps == (Gap(topic="in", partition=0, first=0, last=4, before=FIRST.time),)
    assert (await prove_pipeline(operator.context, resource, START)).is_whole


async def test_the_id_of_a_topic_is_compared_with_the_one_in_its_status() -> None:
    operator, resource = await begin()
    broker = operator.brokers["kafka:9092"]
    broker.topics["in"] = replace(broker.topics["in"], topic_id="another")
    found = await prove_pipeline(operator.context, resource)
    assert "its id is another and was kafka-1-topic-1" in found.message


async def test_a_pipeline_that_has_read_further_than_the_log_is_noticed_by_the_lag_sample() -> None:
    operator, resource = await begin()
    pair = GroupPartition(name_group("shop", "delays"), IN)
    sample = Sample(START, PartitionLog(0, 3, 3), 8)
    other = GroupPartition("billing", IN)
    operator.lag.samples[CLUSTER] = ClusterSample(
        START, 0.1, samples={pair: sample, other: sample._replace(committed=99)}
    )
    found = await prove_pipeline(operator.context, resource)
    assert found.gaps == (Gap(topic="in", partition=0, first=0, last=7),)


async def test_a_proof_that_cannot_be_made_has_the_problem() -> None:
    operator, resource = await begin()
    operator.brokers["kafka:9092"].trouble = BrokerUnreachable("kafka:9092: Connection refused")
    found = await prove_pipeline(operator.context, resource)
    assert (found.verdict, found.message) == (Verdict.UNKNOWN, "kafka:9092: Connection refused")


async def test_the_topics_of_a_pipeline_are_held_and_given_back() -> None:
    operator, resource = await begin()
    cut(operator)
    holds = await plan_holds(operator.context, resource, "reprocessing.v2")
    assert holds.unheld == ()
    assert await apply_actions(operator.context, resource, holds.actions) is None
    for key in TOPICS:
        await operator.reconcile(key)
    topics = operator.brokers["kafka:9092"].topics
    assert int(topics["in"].configs["retention.ms"]) / 1000 > START.timestamp() - FIRST.stamp / 1000
    assert "retention.ms" not in topics["out"].configs, "only sources are held"
    assert (await plan_holds(operator.context, resource, "reprocessing.v2")).actions == ()
    released = plan_release(operator.context, resource, "reprocessing.v2")
    assert await apply_actions(operator.context, resource, released) is None
    await operator.reconcile(TOPICS[0])
    assert "retention.ms" not in topics["in"].configs
    assert plan_release(operator.context, resource, "reprocessing.v2") == ()


def build_proof(partitions: int) -> LogProof:
    gaps = tuple(
        Gap(topic="flights", partition=number, first=0, last=41_233 + number, before=FIRST.time)
        for number in range(partitions)
    )
    flights = SourceProof(
        source="flights", use="stream", verdict=Verdict.MISSING, topics=("flights",), partitions=partitions,
        records=1_300_000, gaps=gaps, reasons=("offsets are gone\x1b[2J",),
    )  # fmt: skip
    planes = SourceProof(
        source="planes", use="table", verdict=Verdict.WHOLE, topics=("planes",), partitions=1, notes=("it is compacted",)
    )  # fmt: skip
    return LogProof(at=START, sources=(flights, planes))


SCREEN = """\
SOURCE   USED AS  TOPICS   PARTITIONS  RECORDS  VERDICT
flights  stream   flights           2     1.3M  Missing
planes   table    planes            1        ?  Whole

TOPIC    PARTITION  GONE         OFFSETS  RECORDS BEFORE
flights          1  0 to 41,234   41,235  2023-11-14T22:13:20Z
flights          0  0 to 41,233   41,234  2023-11-14T22:13:20Z

flights: offsets are gone\\u001b[2J
planes: note: it is compacted
What to do: a reprocessing of this log computes results without the missing records. Start it from a time that is whole (--from), restore the records from an archive, or accept the loss explicitly."""


def test_the_proof_is_shown_with_the_largest_gaps_first_and_what_to_do() -> None:
    assert render(build_check_view(build_proof(2)), 250) == SCREEN


def test_a_hundred_partitions_fit_on_one_screen() -> None:
    lines = render(build_check_view(build_proof(100)), 250).splitlines()
    assert len(lines) <= 30
    assert "and 80 more partitions; -o wide lists all" in lines
    assert len(render(build_check_view(build_proof(100), wide=True), 250).splitlines()) > 100


def test_the_data_has_the_verdict() -> None:
    data = build_data(build_proof(1))
    assert data["verdict"] == "Missing"
    assert data["sources"][0]["gaps"][0] == {
        "topic": "flights", "partition": 0, "first": 0, "last": 41_233, "before": "2023-11-14T22:13:20Z", "atMost": False,
    }  # fmt: skip


@pytest.mark.parametrize("start", ["yesterday", "2013-01-01T00:00:00"])
def test_a_start_that_is_no_time_is_refused_before_anything_is_asked(start: str) -> None:
    done = CliRunner().invoke(app, ["reprocess", "check", "delays", "--from", start])
    assert done.exit_code == 2
    assert "neither earliest nor latest nor a time" in done.stderr
