"""Runs a test case in Spark, batch by batch, and compares its output with the expected one."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.cases import Case, Expectation, ExpectedLetter, Mark, split_input
from kappa_pipelines.laptop.compare import compare_rows, is_table, read_rows
from kappa_pipelines.laptop.runs import Letter, LocalRun
from kappa_pipelines.laptop.session import start_spark


def run_case(revision: Revision, case: Case) -> list[str]:
    """Run a case in a temporary folder; return the differences, a line each."""
    try:
        with tempfile.TemporaryDirectory(prefix="kappa-test-", ignore_cleanup_errors=True) as folder:
            run = LocalRun(start_spark(revision), revision, Path(folder))
            play(run, case)
            return _find_problems(run, revision, case.spec.expect)
    except DriverError as error:
        return [f"{error.reason}: {error.message}"]


def play(run: LocalRun, case: Case) -> None:
    """Feed a case's records and execute its marks. Batches between two marks run together."""
    for records, mark in split_input(case.spec.input, run.spec):
        if mark is Mark.ABORT:
            run.process()
        if records:
            run.feed(records)
        _ACTIONS[mark](run)
    run.process()


_ACTIONS: dict[Mark, Callable[[LocalRun], object]] = {
    Mark.BATCH: lambda run: None,
    Mark.STOP: LocalRun.process,
    Mark.ABORT: LocalRun.crash,
    Mark.END: LocalRun.end,
}


def _find_problems(run: LocalRun, revision: Revision, expect: Expectation) -> list[str]:
    problems: list[str] = []
    sinks = {sink.name: sink for sink in revision.spec.sinks}
    for sink in expect.sinks:
        rows = read_rows(run.outputs(sink.name), sinks[sink.name])
        lines = compare_rows(sink.rows, rows)
        if lines:
            kind = "last rows of each key" if is_table(sinks[sink.name]) else "rows"
            problems += [f"sink {sink.name}, {kind}: `-` is missing, `+` was not expected", *lines]
    late_records = run.late_records() if expect.late_records else []
    for view in expect.late_records:
        lines = compare_rows(view.rows, [each.fields for each in late_records if each.view == view.name])
        if lines:
            problems += [f"late records of view {view.name}: `-` is missing, `+` was not expected", *lines]
    if expect.dead_letters is not None:
        problems += compare_letters(expect.dead_letters, run.letters())
    if expect.late is not None and run.late != expect.late:
        problems.append(f"{run.late} rows were dropped as late, {expect.late} expected")
    return problems


def compare_letters(expected: Sequence[ExpectedLetter], found: Sequence[Letter]) -> list[str]:
    """Return a line for each dead letter that is missing (`-`) or was not expected (`+`)."""
    left = list(found)
    lines = []
    for want in expected:
        match = next((x for x in left if want.source in (None, x.source) and want.error in x.error), None)
        if match is None:
            lines.append(f"- dead letter of {want.source or 'any source'}: {want.error}")
        else:
            left.remove(match)
    return lines + [
        f"+ dead letter of {letter.source} at offset {letter.offset}: {letter.error}" for letter in left
    ]
