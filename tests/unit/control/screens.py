"""What a view prints to a pipe of some width."""

import io

from rich.console import Console, RenderableType


def render(view: RenderableType, width: int = 160) -> str:
    """Return the text, without blanks at the ends of lines."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()
