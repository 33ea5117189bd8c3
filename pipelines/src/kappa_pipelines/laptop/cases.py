"""Test cases of a pipeline: its input, with marks between the records, and its expected output.

```yaml
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: a late flight is not counted}
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
    lateRecords:
    - {name: hourly, rows: [{carrier: AA, delay: 5, windowEnd: 2013-01-01T11:00:00Z}]}
    deadLetters: [{source: flights, error: value is not a JSON object}]
    late: 0
```

Marks are part of the input, so a test of a recovery reads in the order of its events: `batch` ends a batch, `stop` ends it and stops the
driver gracefully, `abort` ends the driver during the batch, and `end` is the end of the input, at which every window closes. A test is
not a resource of a cluster, so its file ends with `.kappatest`, which kubectl does not apply.
"""

from collections.abc import Iterable, Iterator, Sequence
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
from kappa_crds.source import Source
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.laptop.records import Record, encode_text

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


class Mark(StrEnum):
    """An event between two records."""

    BATCH = "batch"
    STOP = "stop"
    ABORT = "abort"
    END = "end"


class Step(Model):
    """A record, or a mark."""

    mark: Mark | None = None
    """An event instead of a record."""
    source: SqlName | None = None
    """The source of the record; required if the pipeline has several."""
    topic: TopicName | None = None
    """The topic of the record; by default the first of its source."""
    value: Any = None
    """The value: text as it is, an object as JSON or in the source's format, null for NULL."""
    key: str | None = None
    """The key."""
    timestamp: datetime | None = None
    """The timestamp in Kafka; by default seconds from 2000-01-01 on, one for each step."""
    headers: dict[str, str] = Field(default_factory=dict)
    """The headers."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_fields_set
        if ("mark" in given) == ("value" in given):
            raise ValueError("a step has either a `value` or a `mark`")
        if "mark" in given and len(given) > 1:
            raise ValueError("a step with a `mark` has no other field")
        return self


class ExpectedRows(Model):
    """The rows of one sink or view."""

    name: SqlName
    """The sink or view."""
    rows: tuple[dict[str, Any], ...]
    """The rows. Times are compared as instants, numbers to twelve digits."""


class ExpectedLetter(Model):
    """A dead letter: its source, and a part of the error."""

    source: SqlName | None = None
    """The source of the record; any if absent."""
    error: str = ""
    """A part of the error."""


class Expectation(Model):
    """The expected output; absent fields are not checked."""

    sinks: tuple[ExpectedRows, ...] = ()
    """Rows of sinks in any order: all of an append sink, the last for each key of others. Only named columns are compared."""
    late_records: tuple[ExpectedRows, ...] = ()
    """Late records of views with `sideOutput`. Rows may also have `windowStart`, `windowEnd`, `watermark`, `topic`, `partition` and `offset`."""
    dead_letters: tuple[ExpectedLetter, ...] | None = None
    """All dead letters."""
    late: Annotated[int, Field(ge=0)] | None = None
    """The number of rows dropped as late, in all sinks."""


class CaseSpec(Model):
    """The input and the expected output."""

    pipeline: str
    """The name of the Pipeline, in one of the files."""
    input: Annotated[tuple[Step, ...], Field(min_length=1)]
    """Records and marks, in order."""
    expect: Expectation
    """The expected output at the end."""


class CaseMetadata(Model):
    """The name of the case."""

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
    """Return the case; ManifestError if the document is invalid."""
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
    """Raise ManifestError unless the case matches the sources, sinks and views of the pipeline."""
    problem = next(_find_problems(case.spec, spec), None)
    if problem is not None:
        raise ManifestError(f"test {case.name!r}: {problem}")


def _find_problems(case: CaseSpec, spec: PipelineSpec) -> Iterator[str]:
    sources = {source.name: source for source in spec.sources}
    for number, step in enumerate(case.input, start=1):
        if step.mark is None and step.source is None and len(sources) > 1:
            yield f"input {number} names no source; there are {', '.join(sources)}"
        elif step.source is not None and step.source not in sources:
            yield f"input {number}: there is no source {step.source!r}, only {', '.join(sources)}"
        else:
            yield from _find_wrong_topic(number, step, sources[step.source or spec.sources[0].name])
    yield from _find_unknown("sink", case.expect.sinks, [sink.name for sink in spec.sinks])
    yield from _find_unknown(
        "view with lateRecords.sideOutput", case.expect.late_records, list(spec.side_outputs)
    )
    if Mark.END in [step.mark for step in case.input][:-1]:
        yield "nothing follows the mark `end`; make it the last step"


def _find_wrong_topic(number: int, step: Step, source: Source) -> Iterator[str]:
    reads = Subscription(source.topic_names, source.topic_pattern)
    if step.topic is not None and not reads.covers(step.topic):
        yield f"input {number}: source {source.name!r} does not read {step.topic!r}, only {source.reads}"


def _find_unknown(kind: str, expected: Iterable[ExpectedRows], names: Sequence[str]) -> Iterator[str]:
    for each in expected:
        if each.name not in names:
            yield f"there is no {kind} {each.name!r}, only {', '.join(names) or 'none'}"


Batch = tuple[dict[str, list[Record]], Mark]
"""Records by source, and the mark after them."""


def split_input(steps: Sequence[Step], spec: PipelineSpec) -> Iterator[Batch]:
    """Yield the batches of an input, each with the mark that ends it; the last one may end without a mark."""
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
        value=encode_text(step.value),
        key=encode_text(step.key),
        timestamp=step.timestamp or _FIRST + timedelta(seconds=number),
        headers=tuple((name, value.encode()) for name, value in step.headers.items()),
        topic=step.topic,
    )
