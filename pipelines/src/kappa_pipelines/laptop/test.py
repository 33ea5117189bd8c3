"""`kappa test`: runs the test cases of pipelines on this machine, in Spark, batch by batch."""

import time
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.cases import Case, check_case
from kappa_pipelines.laptop.console import FAILED, Report, complain, guard
from kappa_pipelines.laptop.manifests import FoundCases, read_tests
from kappa_pipelines.laptop.revision import build_local_revision


def main(files: list[str], report: Report, words: str = "") -> int:
    """Run the test cases in the files; return 0 if all pass, 1 if not, 2 where nothing can be run."""
    return guard(lambda: _run_cases(files, report, words))


def _run_cases(files: list[str], report: Report, words: str) -> int:
    tests = read_tests(files)
    cases = [case for case in tests.cases if words in case.name]
    skipped = _describe_skipped(tests)
    if not cases:
        wanted = f" with {words!r}" if words else ""
        return complain(f"no PipelineTest found in or beside {', '.join(files)}{wanted}{skipped}")
    revisions = _find_revisions(tests.pipelines, cases)
    from kappa_pipelines.laptop.case_run import run_case  # noqa: PLC0415 - loads Spark

    failed = 0
    for case in cases:
        revision, name = revisions[case.spec.pipeline], case.spec.pipeline
        started = time.monotonic()
        problems = run_case(revision, case)
        failed += bool(problems)
        seconds = round(time.monotonic() - started, 1)
        lines = [f"{'✗' if problems else '✓'} {name}: {case.name} ({seconds} s)"]
        found = {"resource": f"pipeline/{name}", "case": case.name, "passed": not problems}
        report(
            lines + [f"    {each}" for each in problems], {**found, "seconds": seconds, "problems": problems}
        )
    report([f"{len(cases) - failed} passed{f', {failed} failed' if failed else ''}{skipped}"], None)
    return FAILED if failed else 0


def _describe_skipped(tests: FoundCases) -> str:
    names = dict.fromkeys(case.spec.pipeline for case in tests.skipped)
    return f", {len(tests.skipped)} skipped (no file has Pipeline {', '.join(names)})" if names else ""


def _find_revisions(pipelines: dict[str, dict[str, Any]], cases: list[Case]) -> dict[str, Revision]:
    revisions: dict[str, Revision] = {}
    for case in cases:
        name = case.spec.pipeline
        if name not in pipelines:
            there = ", ".join(pipelines) or "none"
            raise ManifestError(
                f"test {case.name!r}: there is no Pipeline {name!r} in the files; there are: {there}"
            )
        if name not in revisions:
            try:
                revisions[name] = build_local_revision(pipelines[name])
            except DriverError as error:
                raise ManifestError(f"pipeline/{name}: {error.message}") from error
        check_case(case, revisions[name].spec)
    return revisions
