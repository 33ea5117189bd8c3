"""What the demo prints while something lasts, and at its end."""

import io

import pytest

from demo.__main__ import list_next_steps
from demo.line import Line


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def show(texts: list[str], width: int | None = None, seconds: float = 2.0) -> str:
    out, clock = io.StringIO(), Clock()
    line = Line(out, width=width, clock=clock)
    for text in texts:
        line.show(text)
        clock.now += seconds
    line.end()
    return out.getvalue()


def test_a_state_that_lasts_is_one_line_in_a_file_and_another_each_minute() -> None:
    assert show(["Starting: making driver delays-driver-1"] * 14) == (
        "   0.0 s  Starting: making driver delays-driver-1\n"
    )
    assert len(show(["Starting"] * 62).splitlines()) == 3


def test_another_state_is_shown_at_once_and_figures_every_ten_seconds() -> None:
    figures = [f"Running: records in {n:,} of 9,000 · rate 1{n}k/s" for n in range(0, 30)]
    lines = show(["Starting", *figures, "Stopping"]).splitlines()
    assert [line.split("s  ")[1].split(":")[0] for line in lines] == [
        "Starting",
        *["Running"] * 6,
        "Stopping",
    ]


def test_on_a_terminal_the_line_is_updated_in_place() -> None:
    text = show(["Starting", "Running: 1", "Running: 2"], width=20)
    assert text.count("\r\x1b[2K") == 3
    assert text.count("\n") == 1
    assert all(len(part.rstrip()) <= 19 for part in text.split("\r\x1b[2K"))


def test_the_last_text_is_always_shown() -> None:
    out, clock = io.StringIO(), Clock()
    line = Line(out, clock=clock)
    line.show("dead letters 257")
    clock.now += 1
    line.end("dead letters 337")
    assert out.getvalue().splitlines()[-1].endswith("dead letters 337")


@pytest.mark.parametrize(("kept", "words"), [(True, "make demo REMOVE=1"), (False, "make demo KEEP=1")])
def test_the_end_lists_next_steps(kept: bool, words: str) -> None:
    text = "\n".join(list_next_steps("flights", kept=kept))
    assert words in text
    assert ("kappa top -n flights" in text) is kept
    assert "make down" in text
