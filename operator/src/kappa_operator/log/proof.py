"""The proof that a log is whole, or what is missing. It is JSON with camelCase names for commands and programs; what is unknown is absent."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from kappa_crds.model import Status


class Verdict(StrEnum):
    """Whether a run finds all records that it needs."""

    WHOLE = "Whole"
    UNKNOWN = "Unknown"
    """It cannot be known; the reasons have the cause."""
    MISSING = "Missing"

    @property
    def rank(self) -> int:
        """Return the rank, the worst highest."""
        return _RANKS[self]


_RANKS = {Verdict.WHOLE: 0, Verdict.UNKNOWN: 1, Verdict.MISSING: 2}


class Gap(Status):
    """Offsets of a partition that the run needs and that are gone: `first` to `last`, both included.

    The records were before the time `before`, where that is known. With `at_most` some of them may be of no use to the run.
    """

    topic: str
    partition: int
    first: int
    last: int
    before: datetime | None = None
    at_most: bool = False

    @property
    def offsets(self) -> int:
        """Return the number of offsets, of which some may have held no record."""
        return self.last - self.first + 1


class SourceProof(Status):
    """The verdict on a source. `reasons` are why it is not whole, `notes` what to know besides. `records` are the offsets to read."""

    source: str
    use: str
    verdict: Verdict
    topics: tuple[str, ...] = ()
    partitions: int = 0
    records: int | None = None
    gaps: tuple[Gap, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LogProof(Status):
    """The proof for all sources of a pipeline, of the time `at`. A `problem` is why there is none."""

    at: datetime
    sources: tuple[SourceProof, ...] = ()
    problem: str = ""

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict; without sources nothing is known."""
        return worst(source.verdict for source in self.sources) if self.sources else Verdict.UNKNOWN

    @property
    def is_whole(self) -> bool:
        """Return whether a run finds all records that it needs."""
        return self.verdict is Verdict.WHOLE

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Return all gaps."""
        return tuple(gap for source in self.sources for gap in source.gaps)

    @property
    def message(self) -> str:
        """Return the proof in one line for a condition."""
        if self.is_whole:
            count = sum(source.partitions for source in self.sources)
            return f"the log is whole: {count} partitions of {len(self.sources)} sources"
        bad = [source for source in self.sources if source.verdict is not Verdict.WHOLE]
        return (
            self.problem
            or "; ".join(f"source {each.source}: {', '.join(each.reasons)}" for each in bad)
            or "no sources"
        )


def join_proofs(proofs: Sequence[LogProof]) -> LogProof:
    """Return the proof for the sources of several pipelines, of at least one."""
    first, *_ = proofs
    problem = next((each.problem for each in proofs if each.problem), "")
    return first.replace(sources=tuple(source for each in proofs for source in each.sources), problem=problem)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.WHOLE)


def format_time(at: datetime) -> str:
    """Return a time in UTC, with milliseconds only where it has some."""
    text = at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")
    return text.replace("+00:00", "Z")
