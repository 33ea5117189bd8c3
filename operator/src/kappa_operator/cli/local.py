"""The commands that need no cluster. Here are their options; the work is in the runtime, which is a package of its own."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import Filename, Files, OutputFormat, list_files
from kappa_operator.cli.output import Output, print_result


def validate(files: Files = None, *, filename: Filename = None, output: OutputFormat = Output.TABLE) -> None:
    """Check resources as the API server and a driver would, without a cluster. Exit code 1 if one is invalid."""
    _report("validate", files, filename, output)


def explain(files: Files = None, *, filename: Filename = None, output: OutputFormat = Output.TABLE) -> None:
    """Show a pipeline's graph, its state with its bounds, and its guarantees."""
    _report("explain", files, filename, output)


def test(
    files: Files = None,
    *,
    filename: Filename = None,
    words: Annotated[
        str, typer.Option("-k", metavar="WORDS", help="Only cases with these words in their names.")
    ] = "",
    output: OutputFormat = Output.TABLE,
) -> None:
    """Run the test cases of pipelines on this machine. Exit code 1 if one fails."""
    _report("test", files, filename, output, words=words)


def run(
    files: Files = None,
    *,
    filename: Filename = None,
    data: Annotated[str, typer.Option(metavar="DATA", help="Folder with a file for each topic, or kafka://HOST:PORT.")],
    batch_size: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Records of each source in a batch.")] = 10_000,
    rows: Annotated[int, typer.Option(min=0, metavar="COUNT", help="Rows of each sink to print at most.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="With Kafka: read new records until Ctrl-C.")] = False,
    local: Annotated[bool, typer.Option("--local", hidden=True)] = True,
) -> None:  # fmt: skip
    """Run a pipeline on this machine, over files or topics, and print its rows."""
    options = {"data": data, "batch_size": batch_size, "rows": rows, "follow": follow}
    raise typer.Exit(find_command("run")(list_files(files, filename), **options))


def _report(
    command: str, files: list[Path] | None, filename: list[Path] | None, output: Output, **options: str
) -> None:
    """Run a command that reports on resources: as text while it runs, or as data at its end."""
    reports: list[dict[str, Any]] = []

    def add(lines: Sequence[str], report: dict[str, Any] | None) -> None:
        reports.extend([report] if report else [])
        if output.is_text:
            typer.echo("\n".join(lines))

    names = list_files(files, filename, with_tests=command == "test")
    code = find_command(command)(names, add, **options)
    if reports and not output.is_text:
        print_result(output, lambda: "", lambda: reports, lambda: (report["resource"] for report in reports))
    raise typer.Exit(code)


def find_command(command: str) -> Any:
    """Return the function of a command in the runtime; CommandError without the runtime."""
    found = list(entry_points(group="kappa.commands", name=command))
    if not found:
        raise CommandError(f"kappa {command} needs the package kappa-pipelines; install it", Exit.USAGE)
    return found[0].load()
