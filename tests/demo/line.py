"""The line that shows how far the demo is: one line that is updated on a terminal, and few lines in a file."""

import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

FIGURES_SECONDS, SAME_SECONDS = 10.0, 60.0
"""Time between two lines in a file whose figures changed, and between two lines that are the same."""
_FIGURE = re.compile(r"[\d.,:–?-]+[kM]?")


class Line:
    """One line of progress. A file gets another line when the words change, and else seldom."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        width: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out or sys.stdout
        self._width = width
        self._clock = clock
        self._began = clock()
        self._text = ""
        self._printed_at = 0.0
        self._is_open = False

    def show(self, text: str) -> None:
        """Show how far it is; `width` is that of a terminal, None for a file."""
        now = self._clock()
        stamped = f"{now - self._began:6.1f} s  {text}"
        if self._width is not None:
            self._write(f"\r\x1b[2K{stamped[: self._width - 1]}")
            self._is_open = True
        elif self._is_due(text, now):
            self._write(f"{stamped}\n")
            self._printed_at = now
        else:
            return
        self._text = text

    def _is_due(self, text: str, now: float) -> bool:
        age = now - self._printed_at
        if _FIGURE.sub("", text) != _FIGURE.sub("", self._text):
            return True
        return age >= (SAME_SECONDS if text == self._text else FIGURES_SECONDS)

    def end(self, text: str | None = None) -> None:
        """Leave the line as it is, or with a last text."""
        if text is not None and text != self._text:
            self._text = ""
            self.show(text)
        if self._is_open:
            self._write("\n")
            self._is_open = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
