"""What commands print: text for people, or data for programs. One implementation for all commands."""

import json
from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import typer
import yaml

from kappa_crds import GROUP

if TYPE_CHECKING:  # the help must not load it
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_WIDE = 250


class Output(StrEnum):
    """The output formats."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_text(self) -> bool:
        """Return whether people read it."""
        return self in (Output.TABLE, Output.WIDE)


def print_result(
    output: Output,
    view: "Callable[[], RenderableType]",
    data: Callable[[], Any],
    names: Callable[[], Iterable[str]],
) -> None:
    """Print a result in the format that was requested."""
    match output:
        case Output.NAME:
            for name in names():
                typer.echo(name)
        case Output.JSON:
            typer.echo(json.dumps(data(), indent=2))
        case Output.YAML:
            plain = json.loads(json.dumps(data()))
            typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip())
        case _:
            print_plain(open_console(), view())


def name_resource(kind: str, name: str) -> str:
    """Return a resource as `kubectl get -o name` prints it."""
    return f"{kind.lower()}.{GROUP}/{name}"


def open_console() -> "Console":
    """Return the console of the present stdout; a pipe gets long lines, so that no line is broken."""
    from rich.console import Console  # noqa: PLC0415 - see above

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def start_table(columns: Iterable[str], right: Container[str] = (), *, fold: bool = True) -> "Table":
    """Return a table with columns, some of them aligned to the right; a narrow screen folds cells, or cuts them off."""
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table(box=None, pad_edge=False)
    for column in columns:
        justify: Literal["right", "left"] = "right" if column in right else "left"
        table.add_column(column, overflow="fold" if fold else "ellipsis", no_wrap=not fold, justify=justify)
    return table


def to_cell(value: object) -> "Text":
    """Return a value as it is, without markup."""
    from rich.text import Text  # noqa: PLC0415 - see above

    return value if isinstance(value, Text) else Text(str(value))


def print_plain(console: "Console", view: "RenderableType") -> None:
    """Print a view; lines in a pipe have no blanks at their ends."""
    if console.is_terminal:
        console.print(view)
        return
    with console.capture() as captured:
        console.print(view)
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)
