"""Pairs of rows, folded into counts, statistics and samples."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.comparison import MOST_SAMPLES, ComparisonSummary, DifferenceKind, Tolerance
from kappa_pipelines.compare.fold import OTHERS, TOLERATED, UNDECIDED, Fold, Pair, read_fold
from kappa_pipelines.compare.values import Rule

_RULE = Rule(Tolerance(absolute=0.5))


def _pair(key: str, old: str | None, new: str | None, *, expected: bool = False, lost: bool = False) -> Pair:
    encoded = [None if each is None else each.encode() for each in (old, new)]
    return Pair(key=key.encode(), old=encoded[0], new=encoded[1], expected=expected, lost=lost)


def _fold(pairs: list[Pair], limit: int = 5) -> Fold:
    fold = Fold(limit)
    for pair in pairs:
        fold.add(pair, _RULE)
    return fold


def test_each_pair_is_of_one_kind() -> None:
    fold = _fold(
        [
            _pair("tolerated", '{"a":1}', '{"a":1.4}'),
            _pair("changed", '{"a":1}', '{"a":3,"b":null}'),
            _pair("gone", '{"a":1}', None),
            _pair("new", None, '{"a":1}'),
            _pair("expected", '{"a":1}', '{"a":61}', expected=True),
            _pair("expected to go", '{"a":1}', None, expected=True),
            _pair("lost", '{"a":1}', None, lost=True),
        ]
    )
    assert fold.counts == {
        TOLERATED: 1,
        DifferenceKind.CHANGED: 1,
        DifferenceKind.ONLY_OLD: 1,
        DifferenceKind.ONLY_NEW: 1,
        DifferenceKind.EXPECTED: 2,
        UNDECIDED: 1,
    }
    (column,) = fold.list_columns()
    assert (column.name, column.rows, column.smallest, column.largest, column.mean) == (
        "a",
        2,
        2.0,
        60.0,
        31.0,
    )
    assert [sample.key for sample in fold.list_samples()] == [
        "changed",
        "gone",
        "new",
        "expected",
        "expected to go",
    ]


def test_nulls_and_numbers_too_large_for_a_mean_are_counted_apart() -> None:
    fold = _fold(
        [
            _pair("1", "{}", '{"a":1}'),
            _pair("2", '{"a":1}', '{"a":null}'),
            _pair("3", '{"a":0}', '{"a":1e999}'),
            _pair("4", '{"a":0}', '{"a":1e308}'),
            _pair("5", '{"a":0}', '{"a":1e308}'),
        ]
    )
    (column,) = fold.list_columns()
    assert (column.rows, column.null_old, column.null_new, column.numbers) == (5, 1, 1, 2)
    assert column.mean is None
    assert json.loads(column.model_dump_json(by_alias=True))["largest"] == 1e308


def test_columns_samples_and_texts_are_bounded() -> None:
    rows = [_pair(f"{n:05d}" + "k" * 1000, f'{{"c{n}":"{"v" * 5000}"}}', "{}") for n in range(1500)]
    fold = _fold(rows)
    assert len(fold.columns) == 1001
    assert fold.columns[OTHERS].rows == 500
    samples = fold.list_samples()
    assert [(sample.key or "")[:5] for sample in samples] == [f"{n:05d}" for n in range(5)]
    assert max(len(sample.old or "") for sample in samples) == 513
    assert len(samples[0].to_manifest()["key"]) == 257


def test_bytes_are_shown_in_hexadecimal_digits_and_text_is_cut_between_characters() -> None:
    fold = _fold([Pair(key=b"\xff\x01", old=b"\x80", new=("ä" * 3000).encode())])
    (sample,) = fold.list_samples()
    assert (sample.key, sample.old) == ("ff01", "80")
    assert sample.new == "ä" * 512 + "…"


def test_a_summary_is_shortened_for_a_status() -> None:
    fold = _fold([_pair(f"{n}", "1", "9") for n in range(30)], limit=20)
    summary = ComparisonSummary(changed=30, samples=fold.list_samples(), columns=fold.list_columns())
    assert len(summary.samples) == 20
    assert len(summary.shorten().samples) == MOST_SAMPLES
    assert not summary.is_equal


_PAIRS = st.lists(
    st.builds(
        _pair,
        st.text("abc", max_size=3),
        st.sampled_from(['{"a":1}', '{"a":2,"b":"x"}', "no"]),
        st.none() | st.sampled_from(['{"a":5}', '{"b":"y"}', "yes"]),
        expected=st.booleans(),
        lost=st.booleans(),
    ),
    max_size=20,
)


@given(pairs=_PAIRS, cut=st.integers(0, 20))
def test_folds_of_parts_merge_to_the_fold_of_all(pairs: list[Pair], cut: int) -> None:
    whole, merged = _fold(pairs, 2), Fold(2)
    for part in (pairs[:cut], pairs[cut:]):
        merged.merge(read_fold(_fold(part, 2).to_json()))
    assert merged.counts == whole.counts
    assert merged.windows == whole.windows
    assert merged.list_columns() == whole.list_columns()
    assert merged.list_samples() == whole.list_samples()
    assert merged.expected_old == whole.expected_old
