"""The reference page of the command line, from the help of the commands."""

import re
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from kappa_operator.cli.app import COMMANDS, app, load

INTRODUCTION = """# Command line

<!-- Generated from the help of the commands by `make generate`; do not edit. -->

`kappa` is also a plugin of kubectl: `kubectl kappa status` and `kappa status` are the same.

| Exit code | Meaning |
| --- | --- |
| 0 | success |
| 1 | the command failed, a pipeline is invalid or failed, a database is not ready, or what was compared differs; the message names the remedy |
| 2 | options or files cannot be used; `cdc`: the database or Kafka cannot be reached; `diff`: the topics cannot be compared |
| 3 | `status`, `cdc status`: a resource is unhealthy; `lag --fail-over`: lag is over the bound; `reprocess check`, `reprocess start --dry-run`: records are missing; `reprocess watch`: the new version is not active |
| 4 | `status`, `lag --fail-over`, `cdc reconcile`, `reprocess check`, `reprocess start --dry-run`: the answer is not known |

An expected error is one line on stderr that starts with `error: `.
"""


def build_page() -> str:
    """Return the page."""
    root = get_command(app)
    parts = [INTRODUCTION]
    for name in COMMANDS:
        command: Any = load(name)
        context: Any = typer.Context(command, info_name=name, parent=typer.Context(root, info_name="kappa"))
        parts.append(get_docs_for_click(obj=command, ctx=context, indent=1, name=name, call_prefix="kappa"))
    page = re.sub(r"\* `--help`.*\n|\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", "\n".join(parts))
    page = page.replace("**Options**:\n\n\n", "").replace(" <str>`", "`").replace(" <list[Path]>`", "`")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" +\n", "\n", page)).rstrip() + "\n"
