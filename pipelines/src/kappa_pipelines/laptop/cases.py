"""Test cases of a pipeline: what comes in, with marks between the records, and what must come out.

```yaml
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: a flight that comes too late is not counted}
spec:
  pipeline: delays
  input:
  - {source: flights, value: {carrier: AA, delay: 5, at: 2013-01-01T10:00:00Z}}
  - {mark: abort}
  - {source: flights, value: "not JSON"}
  - {mark: end}
  expect:
    sinks:
    - {name: mean, rows: [{carrier: AA, n: 1}]}
    stragglers:
    - {name: hourly, rows: [{carrier: AA, delay: 5, windowEnd: 2013-01-01T11:00:00Z}]}
    deadLetters: [{source: flights, error: value is not a JSON object}]
    late: 0
```

Marks stand in the stream, so a test of a recovery reads like the story that it tells: `batch` ends a batch, `stop`
ends it and then stops the driver in order, `abort` lets the driver die in the midst of it, and `end` says that nothing more comes, so that
every window closes. This is no resource of a cluster; `kappa test` reads it.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from kappa_crds.admission import check
from kappa_crds.manifests import ManifestError
from kappa_crds.model import Model, SqlName, TopicName
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.schema import build_structural_schema
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.laptop.records import Record

KIND = "PipelineTest"
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


class Mark(StrEnum):
    """What happens between two records."""

    BATCH = "batch"
    STOP = "stop"
    ABORT = "abort"
    END = "end"


class Step(Model):
    """A record, or a mark."""

    mark: Mark | None = None
    source: SqlName | None = None
    topic: TopicName | None = None
    value: Any = None
    key: str | None = None
    timestamp: datetime | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_fields_set
        if ("mark" in given) == ("value" in given):
            raise ValueError("a step has either a `value` or a `mark`")
        if "mark" in given and len(given) > 1:
            raise ValueError("a step with a `mark` has no other field")
        return self


class ExpectedRows(Model):
    """The rows of one sink in any order: all of an append sink, the last for each key of another.

    Only columns that some expected row names are compared.
    """

    name: SqlName
    rows: tuple[dict[str, Any], ...]


class ExpectedLetter(Model):
    """A record that cannot be read: its source, and words of the error."""

    source: SqlName | None = None
    error: str = ""


class Expectation(Model):
    """What must have come out in the end; what is left out is not checked.

    `stragglers` are those of views with `sideOutput`. A row may name, besides its own columns, what the headers of its record say:
    `windowStart`, `windowEnd`, `watermark`, `topic`, `partition` and `offset`.
    """

    sinks: tuple[ExpectedRows, ...] = ()
    stragglers: tuple[ExpectedRows, ...] = ()
    dead_letters: tuple[ExpectedLetter, ...] | None = None
    late: Annotated[int, Field(ge=0)] | None = None


class CaseSpec(Model):
    """One story."""

    pipeline: str
    input: Annotated[tuple[Step, ...], Field(min_length=1)]
    expect: Expectation


class CaseMetadata(Model):
    """How the case is called."""

    name: str
    namespace: str | None = None


class Case(Model):
    """A document of kind PipelineTest."""

    api_version: str
    kind: Literal["PipelineTest"]
    metadata: CaseMetadata
    spec: CaseSpec

    @property
    def name(self) -> str:
        """Return the name, a sentence."""
        return self.metadata.name


def parse_case(document: dict[str, Any]) -> Case:
    """Return the case; ManifestError says what is wrong with the document."""
    problems = list(map(str, check(document, build_structural_schema(Case))))
    try:
        if not problems:
            return Case.model_validate(document)
    except ValidationError as error:
        # A list that lost its invalid items is reported as too short, too.
        problems = [
            _describe(each) for each in error.errors(include_input=False) if each["type"] != "too_short"
        ]
    raise ManifestError(f"test {document['metadata']['name']!r}: {'; '.join(problems)}")


def _describe(problem: ErrorDetails) -> str:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    return f"{field.lstrip('.')}: {problem['msg'].removeprefix('Value error, ')}"


def check_case(case: Case, spec: PipelineSpec) -> None:
    """Raise ManifestError unless the case speaks of the pipeline's own sources and sinks."""
    sources = [source.name for source in spec.sources]
    sinks = [sink.name for sink in spec.sinks]
    for number, step in enumerate(case.spec.input, start=1):
        if step.mark is None and step.source is None and len(sources) > 1:
            raise ManifestError(
                f"test {case.name!r}: input {number} names no source; there are {_list(sources)}"
            )
        if step.source is not None and step.source not in sources:
            raise ManifestError(
                f"test {case.name!r}: input {number}: there is no source {step.source!r}, only {_list(sources)}"
            )
        _check_topic(f"test {case.name!r}: input {number}", step, spec)
    for expected in case.spec.expect.sinks:
        if expected.name not in sinks:
            raise ManifestError(
                f"test {case.name!r}: there is no sink {expected.name!r}, only {_list(sinks)}"
            )
    views = list(spec.side_outputs)
    for expected in case.spec.expect.stragglers:
        if expected.name not in views:
            raise ManifestError(
                f"test {case.name!r}: there is no view {expected.name!r} with stragglers.sideOutput,"
                f" only {_list(views) or 'none'}"
            )
    marks = [step.mark for step in case.spec.input]
    if Mark.END in marks[:-1]:
        raise ManifestError(f"test {case.name!r}: nothing comes after the mark `end`; make it the last step")


def _check_topic(place: str, step: Step, spec: PipelineSpec) -> None:
    source = next((each for each in spec.sources if each.name == step.source), spec.sources[0])
    reads = Subscription(source.topic_names, source.topic_pattern)
    if step.topic is not None and not reads.covers(step.topic):
        raise ManifestError(
            f"{place}: source {source.name!r} does not read {step.topic!r}, only {source.reads}"
        )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


Batch = tuple[dict[str, list[Record]], Mark]
"""Records by source, and the mark after them."""


def split_input(steps: Sequence[Step], spec: PipelineSpec) -> Iterator[Batch]:
    """Yield the batches of an input, each with the mark that ends it; the last may end with `batch` unsaid."""
    records: dict[str, list[Record]] = {}
    for number, step in enumerate(steps):
        if step.mark is None:
            source = step.source or spec.sources[0].name
            records.setdefault(source, []).append(_build_record(step, number))
        else:
            yield records, step.mark
            records = {}
    if records:
        yield records, Mark.BATCH


def _build_record(step: Step, number: int) -> Record:
    return Record(
        value=_encode(step.value),
        key=None if step.key is None else step.key.encode(),
        timestamp=step.timestamp or _FIRST + timedelta(seconds=number),
        headers=tuple((name, value.encode()) for name, value in step.headers.items()),
        topic=step.topic,
    )


def _encode(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, default=_write_time).encode()


def _write_time(value: Any) -> str:
    """Return a time as JSON has it; YAML knows times as such."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return str(value)
