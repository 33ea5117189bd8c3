"""The steps of a demo on the screen: a title, progress, and the time that each took."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from demo import platform
from demo.errors import DemoError
from demo.line import Line
from demo.show import show_failure
from lab import progress
from lab.errors import LabError


def _open_console() -> Console:
    # A file has no width; a terminal keeps its own.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class Steps:
    """Where a demo prints, and when it began."""

    console: Console = field(default_factory=_open_console)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    @contextmanager
    def step(self, title: str, *, shows_progress: bool = False) -> Iterator[None]:
        """Print a step's title, a line every ten seconds unless the step shows its own progress, and at its end the time it took."""
        self.console.rule(f"[bold]{title}", align="left", style="dim")
        running = None if shows_progress else progress.Step(title, lambda: "running")
        began = self.seconds
        if running:
            running.start()
        try:
            yield
        finally:
            if running:
                running.end()
        self.console.print(
            f"[dim]   {title}: {self.seconds - began:.1f} s; since the start {self.seconds:.1f} s[/]"
        )

    def open_line(self) -> Line:
        """Return a new line of progress."""
        return Line(width=self.console.width if self.console.is_terminal else None)

    def judge(self, play: Callable[[], int | None], *, namespace: str, pipeline: str, agreement: str) -> int:
        """Return the exit code of a demo: 0 if `play` found no difference or only removed something, 1 on differences, 2 if it failed."""
        try:
            differences = play()
        except (DemoError, LabError) as error:
            sys.stdout.write("\n")
            parts = platform.describe_failure(namespace, pipeline)
            show_failure(self.console, "The demo failed", {"why": str(error), **parts})
            return 2
        if differences:
            self.console.print(f"[bold red]FAILED: {differences:,} differences[/]")
            return 1
        if differences is not None:
            self.console.print(f"[bold green]PASSED[/]: {agreement} ({self.seconds:.0f} s in all)")
        return 0

    def play(
        self,
        run: Callable[[], int],
        clean: Callable[[], object],
        list_next_steps: Callable[[bool], list[str]],
        *,
        keep: bool,
        remove: bool,
    ) -> int | None:
        """Run a demo, remove what it made unless that is kept, and print what to try next; or only remove what is left: None."""
        if remove:
            with self.step("Removal"):
                clean()
            return None
        differences = run()
        if not keep:
            with self.step("Removal"):
                clean()
        self.console.print("\n".join(list_next_steps(keep)), markup=False)
        return differences

    def prepare_platform(self, *images: str) -> None:
        """Have the cluster, with these images besides the usual ones, and the chart."""
        with self.step("Cluster, Kafka and images"):
            platform.start_lab()
            if images:
                platform.ensure_images(*images)
        with self.step("Chart"):
            platform.install_chart()
