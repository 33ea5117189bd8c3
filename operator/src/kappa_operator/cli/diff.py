"""`kappa diff`: two versions of an output topic. Here are its options and its screen; the runtime compares."""

from typing import Annotated

import typer
from pydantic import ValidationError

from kappa_crds.comparison import (
    ColumnTolerance,
    ComparisonRequest,
    ComparisonSummary,
    OutputRange,
    Semantics,
    StreamWindows,
    Tolerance,
)
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.local import find_command
from kappa_operator.cli.options import OutputFormat
from kappa_operator.cli.output import Output, print_result

_KAFKA = "kafka://"
_Ends = typer.Option(
    metavar="ENDS", help="End of each partition, as 0=1000,1=990. Default: the present end.", show_default=False
)  # fmt: skip


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Topic of the present version.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Topic of the new version.")],
    *,
    data: Annotated[str, typer.Option(metavar="KAFKA", help="The Kafka of both topics, as kafka://HOST:PORT.")],
    stream: Annotated[bool, typer.Option("--stream", help="Each record is a row. Default: the last record of each key is.")] = False,
    window_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="With --stream: column of the event time, to show in which windows rows differ.")] = None,
    window: Annotated[str, typer.Option(metavar="DURATION", help="Length of a window.")] = "1h",
    ignore: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column that may differ; repeatable.")] = None,
    absolute: Annotated[float, typer.Option(min=0, metavar="NUMBER", help="Numbers may differ by so much.")] = 0.0,
    relative: Annotated[float, typer.Option(min=0, metavar="PART", help="Numbers may differ by this part of the larger one.")] = 0.0,
    column: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="The numbers of one column may differ by so much; repeatable.")] = None,
    expected: Annotated[str | None, typer.Option(metavar="SQL", help="Condition that is true for an expected difference, over key, old and new.")] = None,
    old_ends: Annotated[str | None, _Ends] = None,
    new_ends: Annotated[str | None, _Ends] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Read records of open and aborted transactions too.")] = False,
    samples: Annotated[int, typer.Option(min=0, max=1000, metavar="COUNT", help="Samples of each kind of difference.")] = 5,
    output: OutputFormat = Output.TABLE,
) -> None:  # fmt: skip
    """Compare two versions of an output topic on this machine. Exit code 0 if they are equal, 1 if not, 2 if they cannot be compared."""

    def build(before: OutputRange, after: OutputRange) -> ComparisonRequest:
        return ComparisonRequest(
            name="diff",
            semantics=Semantics.STREAM if stream else Semantics.TABLE,
            old=before,
            new=after,
            committed=not uncommitted,
            windows=windows,
            tolerance=tolerance,
            samples=samples,
        )

    if window_column is not None and not stream:
        raise CommandError("--window-column needs --stream; a table has no windows", Exit.USAGE)
    try:
        tolerance = Tolerance(
            ignored_columns=tuple(ignore or ()),
            absolute=absolute,
            relative=relative,
            columns=tuple(map(_read_limit, column or ())),
            expected=expected,
        )
        windows = None if window_column is None else StreamWindows(column=window_column, size=window)
    except ValidationError as error:
        raise CommandError("; ".join(str(each["msg"]) for each in error.errors()), Exit.USAGE) from error
    servers = tuple(data.removeprefix(_KAFKA).rstrip("/").split(","))
    ends = _read_ends(old_ends), _read_ends(new_ends)
    code = find_command("diff")(
        (old, new), servers, ends, build, lambda found: _show(found, output), committed=not uncommitted
    )
    raise typer.Exit(code)


def _read_limit(text: str) -> ColumnTolerance:
    name, _, number = text.partition("=")
    try:
        return ColumnTolerance(name=name, absolute=float(number))
    except ValueError as error:
        raise CommandError(f"--column {text}: use NAME=NUMBER", Exit.USAGE) from error


def _read_ends(text: str | None) -> dict[int, int] | None:
    if text is None:
        return None
    try:
        return {int(part): int(end) for part, _, end in (each.partition("=") for each in text.split(","))}
    except ValueError as error:
        raise CommandError(f"ends {text!r}: use PARTITION=OFFSET,…", Exit.USAGE) from error


def _show(found: ComparisonSummary, output: Output) -> None:
    from kappa_operator.cli.diff_view import build_diff_view  # noqa: PLC0415 - help must not load it

    print_result(output, lambda: build_diff_view(found), found.to_manifest, lambda: (each.key or "" for each in found.samples))  # fmt: skip
