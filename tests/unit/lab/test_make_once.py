"""What several sessions of tests need is made by one of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from lab.maven import make_once


def test_what_several_want_at_the_same_time_is_made_once(tmp_path: Path) -> None:
    target, made, start = tmp_path / "jars", list[int](), Barrier(4)

    def want(number: int) -> Path:
        def make() -> None:
            made.append(number)
            target.mkdir()

        start.wait(30)
        return make_once(target, make)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(want, range(4)))
    assert found == [target] * 4
    assert len(made) == 1


def test_what_was_not_made_is_made_by_the_next_one(tmp_path: Path) -> None:
    target = tmp_path / "jars"
    assert make_once(target, lambda: None) == target
    make_once(target, target.mkdir)
    assert target.is_dir()
