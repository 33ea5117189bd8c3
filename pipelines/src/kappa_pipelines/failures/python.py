"""Errors that a user's own function raises: where, and what."""

import traceback
from pathlib import Path

_MESSAGE_LIMIT = 400  # characters
_OWN = Path(__file__).parent.parent


def locate(error: Exception) -> str:
    """Return the innermost line that is neither ours nor of a library, as ` in FILE, line N`."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
        and "importlib" not in frame.filename
        and _OWN not in Path(frame.filename).parents
    ]
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def describe(error: Exception) -> str:
    """Return an error's class and message on one line."""
    text = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())
    return f"{type(error).__name__}: {text[:_MESSAGE_LIMIT]}"
