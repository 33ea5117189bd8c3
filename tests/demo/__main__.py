"""The command line of the demo: `PYTHONPATH=tests python -m demo`."""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console

import platform_switch
from demo import platform, run
from demo.errors import DemoError
from demo.manifests import Example
from demo.show import show_failure
from lab import kafka
from lab.errors import LabError

# A file has no width; a terminal keeps its own.
_console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
_began = time.monotonic()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="A year of flights through the platform, proved."
    )
    parser.add_argument("--keep", action="store_true", help="leave pipeline and topics running for a look")
    parser.add_argument(
        "--months", type=int, choices=range(1, 13), metavar="N", help="only January to month N"
    )
    parser.add_argument("--no-install", action="store_true", help="take cluster and operator as they are")
    parser.add_argument(
        "--expect-wrong", action="store_true", help="spoil one expected row: the demo must report it and fail"
    )
    return parser


@contextmanager
def _step(title: str) -> Iterator[None]:
    """Print a step's title, and at its end how long it and all so far took."""
    _console.rule(f"[bold]{title}", align="left", style="dim")
    began = time.monotonic()
    yield
    now = time.monotonic()
    _console.print(f"[dim]   {title}: {now - began:.1f} s; since the start {now - _began:.1f} s[/]")


class _Line:
    """One line that is written over on a terminal; one line each where the output is a file."""

    def __init__(self) -> None:
        self._open = False

    def say(self, text: str) -> None:
        text = f"{time.monotonic() - _began:6.1f} s  {text}"
        if _console.is_terminal:
            sys.stdout.write(f"\r\x1b[2K{text[: _console.width - 1]}")
            self._open = True
        else:
            sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def end(self) -> None:
        if self._open:
            sys.stdout.write("\n")
            self._open = False


def _prepare_platform(arguments: argparse.Namespace) -> None:
    if arguments.no_install:
        return
    with _step("Cluster, Kafka and images"):
        platform.start_lab()
    with _step("Chart"):
        platform.install_chart()


def _show_data(data: run.Data) -> None:
    log = data.log
    _console.print(
        f"{len(log):,} records: {len(log) - log.malformed:,} flights, {log.late:,} of them late,"
        f" and {log.malformed:,} malformed records; the watermark must allow"
        f" {data.displacement_seconds / 86_400:.1f} days"
    )


def _run(arguments: argparse.Namespace, example: Example, bootstrap: str) -> int:
    line = _Line()
    with ThreadPoolExecutor(max_workers=1) as background:
        preparing = background.submit(run.prepare, example, arguments.months)
        _prepare_platform(arguments)
        with _step("Clean start"):
            left = run.clean(example, bootstrap)
            if left:
                _console.print(f"deleted topics that a former run had left: {', '.join(left)}")
        with _step(f"Namespace {example.namespace}: KafkaCluster, Topics, StateStore"):
            run.set_up(example)
        data = preparing.result()
    with _step("Load"):
        _show_data(data)
        loaded = run.load_data(
            example, data, bootstrap, lambda done, rate: line.say(f"loaded {done:,} records · {rate:,.0f}/s")
        )
        line.end()
        _console.print(f"loaded {loaded.total:,} records in {loaded.seconds:.1f} s ({loaded.rate:,.0f}/s)")
    with _step("Pipeline"):
        status = run.process(example, data, loaded, bootstrap, line.say)
        line.end()
        _console.print(platform.get_kappa(example), markup=False, end="", soft_wrap=True)
    with _step("Comparison with DuckDB"):
        if arguments.expect_wrong:
            data = run.spoil_expected(data)
        outcome = run.compare(example, data, loaded, status, bootstrap)
        run.show(_console, data, loaded, outcome)
    return len(outcome.differences)


def _finish(arguments: argparse.Namespace, example: Example, bootstrap: str) -> None:
    if arguments.keep:
        _console.print(
            f"left running: kubectl get kappa -n {example.namespace}; the next run starts clean by itself"
        )
        return
    with _step("Removal"):
        run.clean(example, bootstrap)


def main() -> int:
    """Run the demo: 0 if pipeline and DuckDB agree in everything, 1 on any difference, 2 if it did not get that far."""
    arguments = _parser().parse_args()
    example, bootstrap = Example(), kafka.host_bootstrap()
    turn: AbstractContextManager[None] = (
        nullcontext() if arguments.no_install else platform_switch.with_operator()
    )
    try:
        with turn:
            differences = _run(arguments, example, bootstrap)
            _finish(arguments, example, bootstrap)
    except (DemoError, LabError) as error:
        sys.stdout.write("\n")
        parts = platform.describe_failure(example)
        show_failure(_console, "The demo failed", {"why": str(error), **parts})
        return 2
    if differences:
        _console.print(f"[bold red]FAILED: {differences:,} differences[/]")
        return 1
    _console.print(
        f"[bold green]PASSED[/]: pipeline and DuckDB agree in every key"
        f" ({time.monotonic() - _began:.0f} s in all)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
