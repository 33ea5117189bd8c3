"""What commands print on: a terminal, or a pipe, which gets plain lines."""

import json
from enum import StrEnum
from typing import Any

import yaml
from rich.console import Console, RenderableType

_WIDE = 250


class Output(StrEnum):
    """The forms of what a command prints."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def open_console() -> Console:
    """Return what to print on, as it is now; other programs read line by line, so nothing is broken for them."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def print_plain(console: Console, view: RenderableType) -> None:
    """Print something; lines for other programs do not end with blanks."""
    if console.is_terminal:
        console.print(view)
        return
    with console.capture() as captured:
        console.print(view)
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def write_data(data: dict[str, Any], output: Output) -> str:
    """Return data as JSON or YAML."""
    if output is Output.JSON:
        return json.dumps(data, indent=2)
    return yaml.safe_dump(data, sort_keys=False).rstrip()
