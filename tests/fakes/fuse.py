"""A fuse that ends the operator right after a write took effect."""

from collections.abc import Callable


class Killed(BaseException):
    """The process died. Not an Exception, so that nothing in the operator handles it."""


class Fuse:
    """Counts the writes of all fakes that share it; burns through right after the write number `blow_at`.

    `on_write` is called after each write.
    """

    def __init__(self, blow_at: int | None = None) -> None:
        self.writes = 0
        self.on_write: Callable[[], None] | None = None
        self._blow_at = blow_at

    def wrote(self) -> None:
        """Count one write that took effect; raise Killed if it was the last one."""
        self.writes += 1
        if self.on_write is not None:
            self.on_write()
        if self.writes == self._blow_at:
            raise Killed(f"killed after write {self.writes}")

    def die_after(self, writes: int | None) -> None:
        """Burn through after so many further writes, or never."""
        self._blow_at = None if writes is None else self.writes + writes
