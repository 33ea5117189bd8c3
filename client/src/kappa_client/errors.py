"""Errors of readers.

ReaderError
├── ResolveError: the alias cannot be read now; retryable.
├── NoPathError: readers moved, and there is no exact position in the new topic.
└── ReadBeyondCutError: records after a cut were delivered before it was known.
"""


class ReaderError(Exception):
    """A reader cannot continue."""


class ResolveError(ReaderError):
    """The alias cannot be read. The reader keeps its position, and the next poll tries again."""


class NoPathError(ReaderError):
    """The output is in another topic now, and no recorded move leads there from the topic of the reader.

    So it is after a rollback of a version that did not run, and after Reprocessings were deleted. Choose a position by hand.
    """


class ReadBeyondCutError(ReaderError):
    """Records after a cut were delivered from the old topic, so results would be repeated in the new one.

    It needs an operator that was away for longer than the drivers hold. Choose a position by hand.
    """
