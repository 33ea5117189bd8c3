"""The fence: a driver that was taken over from has no way into the checkpoint any more, whenever it wakes up."""

from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import FencedError, UnavailableError


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return f"file://{tmp_path}/checkpoint"


def claim(checkpoint: str, generation: int) -> LinkFence:
    fence = LinkFence(checkpoint, generation)
    fence.acquire()
    return fence


def test_what_a_driver_writes_is_in_the_checkpoint(checkpoint: str) -> None:
    fence = claim(checkpoint, 1)
    LocalFolder(fence.root).write("out/commits/0", b"v1")
    assert LocalFolder(checkpoint).read("out/commits/0") == b"v1"
    fence.check()


def test_each_generation_continues_where_the_previous_one_was(checkpoint: str) -> None:
    LocalFolder(claim(checkpoint, 1).root).write("out/commits/0", b"v1")
    assert LocalFolder(claim(checkpoint, 4).root).read("out/commits/0") == b"v1"


def test_a_driver_that_was_taken_over_from_cannot_write_any_more(checkpoint: str) -> None:
    old = claim(checkpoint, 1)
    LocalFolder(old.root).write("out/commits/0", b"v1")
    claim(checkpoint, 2)
    for path in ("out/commits/1", "out/commits/0", "new/metadata"):
        with pytest.raises(UnavailableError, match="could not be written"):
            LocalFolder(old.root).write(path, b"v1")
    assert sorted(LocalFolder(checkpoint).walk("")) == ["_kappa/g1", "out/commits/0"]
    with pytest.raises(FencedError, match="this driver is generation 1, but generation 2"):
        old.check()


def test_nothing_that_a_driver_writes_goes_past_its_fence(checkpoint: str) -> None:
    old = claim(checkpoint, 1)
    old.files.write("out/offsets/1", b"one")
    claim(checkpoint, 2)
    with pytest.raises(UnavailableError):
        old.files.write("out/offsets/2", b"planned by a driver that slept")
    with pytest.raises(UnavailableError):
        LocalFolder(checkpoint).link("out/offsets/1", old.files, "out/offsets/3")
    with pytest.raises(UnavailableError):
        old.files.delete("out/offsets/1")
    with pytest.raises(UnavailableError):
        old.files.move("out/offsets/1", "out/offsets/4")
    old.files.remove("out")
    assert LocalFolder(checkpoint).names("out/offsets") == ["1"]


def test_a_file_that_it_had_open_never_takes_its_place(checkpoint: str) -> None:
    old = LocalFolder(claim(checkpoint, 1).root)
    with pytest.raises(UnavailableError), old._explain("written", "f"), old._replace("out/commits/0") as part:
        part.write(b"v1")
        claim(checkpoint, 2)
    assert LocalFolder(checkpoint).read("out/commits/0") is None


def test_a_driver_of_a_generation_before_the_present_one_is_refused(checkpoint: str) -> None:
    claim(checkpoint, 3)
    with pytest.raises(FencedError, match="this driver is generation 2, but generation 3"):
        claim(checkpoint, 2)
    claim(checkpoint, 3).check()


def test_of_two_concurrent_takeovers_the_newer_one_wins(checkpoint: str) -> None:
    class Overtaken(LinkFence):
        """Another driver claims the checkpoint after this one has looked, before it makes its link."""

        def _create_link(self) -> None:
            claim(checkpoint, 9)
            super()._create_link()

    with pytest.raises(FencedError, match="generation 9 has taken over"):
        Overtaken(checkpoint, 8).acquire()
    with pytest.raises(UnavailableError):
        LocalFolder(LinkFence(checkpoint, 8).root).write("out/commits/0", b"v1")
    LinkFence(checkpoint, 9).check()


def test_a_checkpoint_that_cannot_be_claimed_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("in the way")
    with pytest.raises(UnavailableError, match=rf"{tmp_path}/checkpoint could not be acquired"):
        claim(f"file://{tmp_path}/checkpoint", 1)
