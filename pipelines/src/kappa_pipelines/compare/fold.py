"""Differences of rows, folded into counts, statistics of columns and samples. Pure, and bounded in memory.

Each task folds its rows; the folds travel as JSON and are merged.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from kappa_crds.comparison import ColumnDifference, DifferenceKind, DifferenceSample
from kappa_pipelines.compare.values import Change, Rule, find_changes

TOLERATED, UNDECIDED = "tolerated", "undecided"
OTHERS = "…"
"""Stands for all columns after the first thousand: a value may have its data in names."""
_MOST_COLUMNS = 1000
_KEY_CHARACTERS, _VALUE_CHARACTERS = 256, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A row of both versions whose bytes differ. `old` or `new` is None where a version lacks it.

    `lost` means that one of its records could not be read any more; `expected` that the condition of the tolerance is true.
    """

    key: bytes | None
    old: bytes | None
    new: bytes | None
    old_position: str | None = None
    new_position: str | None = None
    expected: bool = False
    lost: bool = False
    window: int | None = None


@dataclass(slots=True)
class ColumnTotals:
    """Totals of a column's differences."""

    rows: int = 0
    null_old: int = 0
    null_new: int = 0
    numbers: int = 0
    smallest: float = math.inf
    largest: float = -math.inf
    total: float = 0.0

    def add(self, change: Change) -> None:
        """Add a row's difference."""
        self.rows += 1
        self.null_old += change.old is None
        self.null_new += change.new is None
        if change.difference is not None and math.isfinite(change.difference):
            self.numbers += 1
            self.smallest = min(self.smallest, change.difference)
            self.largest = max(self.largest, change.difference)
            self.total += change.difference

    def merge(self, other: "ColumnTotals") -> None:
        """Add the totals of another fold."""
        self.rows += other.rows
        self.null_old += other.null_old
        self.null_new += other.null_new
        self.numbers += other.numbers
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)
        self.total += other.total

    def describe(self, name: str) -> ColumnDifference:
        """Return them as part of a summary."""
        found = ColumnDifference(name=name, rows=self.rows, null_old=self.null_old, null_new=self.null_new)
        if not self.numbers:
            return found
        mean = self.total / self.numbers
        return found.replace(
            numbers=self.numbers, smallest=self.smallest, largest=self.largest,
            mean=mean if math.isfinite(mean) else None,
        )  # fmt: skip


@dataclass
class Fold:
    """What was found in some pairs. At most `limit` samples of each kind are kept, those with the lowest keys."""

    limit: int
    counts: Counter[str] = field(default_factory=Counter)
    expected_old: int = 0
    columns: dict[str, ColumnTotals] = field(default_factory=dict)
    windows: Counter[int | None] = field(default_factory=Counter)
    samples: dict[str, list[DifferenceSample]] = field(default_factory=dict)

    def add(self, pair: Pair, rule: Rule) -> None:
        """Add a pair."""
        if pair.lost:
            self.counts[UNDECIDED] += 1
            return
        changes: tuple[Change, ...] | None = None
        if pair.old is not None and pair.new is not None:
            changes = find_changes(pair.old, pair.new, rule)
            if changes == ():
                self.counts[TOLERATED] += 1
                return
        kind = _find_kind(pair)
        self.counts[kind] += 1
        if kind is DifferenceKind.EXPECTED:
            self.expected_old += pair.old is not None
        else:
            self.windows[pair.window] += 1
        for change in changes or ():
            self._find_totals(change.column).add(change)
        self._keep(kind, _build_sample(kind, pair, changes or ()))

    def _find_totals(self, column: str) -> ColumnTotals:
        if column not in self.columns and len(self.columns) >= _MOST_COLUMNS:
            column = OTHERS
        return self.columns.setdefault(column, ColumnTotals())

    def _keep(self, kind: str, *samples: DifferenceSample) -> None:
        kept = self.samples.setdefault(kind, [])
        kept.extend(samples)
        if len(kept) > 2 * self.limit:
            self.samples[kind] = self._select(kept)

    def _select(self, samples: Iterable[DifferenceSample]) -> list[DifferenceSample]:
        ordered = sorted(samples, key=lambda each: (each.key or "", each.old or "", each.new or ""))
        return ordered[: self.limit]

    def merge(self, other: "Fold") -> None:
        """Add another fold."""
        self.counts.update(other.counts)
        self.windows.update(other.windows)
        self.expected_old += other.expected_old
        for name, totals in other.columns.items():
            self._find_totals(name).merge(totals)
        for kind, samples in other.samples.items():
            self._keep(kind, *samples)

    def list_columns(self) -> tuple[ColumnDifference, ...]:
        """Return the statistics, the most frequent column first."""
        ordered = sorted(self.columns.items(), key=lambda item: (-item[1].rows, item[0]))
        return tuple(totals.describe(name) for name, totals in ordered)

    def list_samples(self) -> tuple[DifferenceSample, ...]:
        """Return the samples by kind and key."""
        return tuple(sample for kind in DifferenceKind for sample in self._select(self.samples.get(kind, ())))

    def to_json(self) -> str:
        """Return it for another process."""
        return json.dumps(
            {
                "limit": self.limit,
                "counts": self.counts,
                "expected_old": self.expected_old,
                "columns": {name: asdict(totals) for name, totals in self.columns.items()},
                "windows": list(self.windows.items()),
                "samples": {
                    kind: [each.to_manifest() for each in self._select(samples)]
                    for kind, samples in self.samples.items()
                },
            }
        )


def read_fold(text: str) -> Fold:
    """Return a fold from its JSON."""
    found: dict[str, Any] = json.loads(text)
    return Fold(
        limit=found["limit"],
        counts=Counter(found["counts"]),
        expected_old=found["expected_old"],
        columns={name: ColumnTotals(**totals) for name, totals in found["columns"].items()},
        windows=Counter(dict(found["windows"])),
        samples={
            kind: [DifferenceSample.model_validate(each) for each in samples]
            for kind, samples in found["samples"].items()
        },
    )


def _find_kind(pair: Pair) -> DifferenceKind:
    if pair.expected:
        return DifferenceKind.EXPECTED
    if pair.old is None:
        return DifferenceKind.ONLY_NEW
    return DifferenceKind.ONLY_OLD if pair.new is None else DifferenceKind.CHANGED


def _build_sample(kind: DifferenceKind, pair: Pair, changes: tuple[Change, ...]) -> DifferenceSample:
    return DifferenceSample(
        kind=kind,
        key=_show(pair.key, _KEY_CHARACTERS),
        old=_show(pair.old, _VALUE_CHARACTERS),
        new=_show(pair.new, _VALUE_CHARACTERS),
        columns=tuple(change.column for change in changes[:20]),
        old_position=pair.old_position,
        new_position=pair.new_position,
    )


def _show(raw: bytes | None, limit: int) -> str | None:
    """Return bytes as text, or in hexadecimal digits, cut."""
    if raw is None:
        return None
    part = raw[: 4 * limit]
    try:
        text = part.decode(errors="strict" if len(part) == len(raw) else "ignore")
    except UnicodeDecodeError:
        text = part.hex()
    return text if len(text) <= limit else f"{text[:limit]}…"
