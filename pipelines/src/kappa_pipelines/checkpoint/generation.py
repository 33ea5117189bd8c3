"""The fence: which generation of drivers owns a checkpoint.

A driver writes its generation when it starts, unless a higher one is there, and reads it again while it runs. So a
driver that was given up for lost but still lives finds out within a second, and stops before it writes more.
"""

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.files import CheckpointFiles
from kappa_pipelines.errors import FencedError, LostDataError

FOLDER = "_kappa"
"""What is of one checkpoint alone, and not part of its savepoints."""
_FILE = f"{FOLDER}/generation"


class GenerationFence:
    """Guards one checkpoint for one generation."""

    def __init__(self, files: CheckpointFiles, generation: int) -> None:
        self._files = files
        self.generation = generation

    def take(self) -> None:
        """Claim the checkpoint; FencedError if a newer generation has it, UnavailableError if it is unusable."""
        self.check()
        self._files.write(_FILE, f"{self.generation}\n")

    def check(self) -> None:
        """Raise FencedError if a newer generation has taken the checkpoint."""
        stored = parse_generation(self._files.read(_FILE))
        if stored > self.generation:
            raise FencedError(self.generation, stored)


def parse_generation(text: str | None) -> int:
    """Return the generation in the file's text; 0 if there is no file."""
    if text is None:
        return 0
    if not text.strip().isdigit():
        raise LostDataError(
            Reason.CHECKPOINT_UNAVAILABLE,
            f"{_FILE} holds {text[:40]!r} instead of a generation; it was damaged",
        )
    return int(text)
