"""What holds for every folder, wherever it is: a class for the tests of each kind to take over, with a fixture `folder`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import UnavailableError

FILES = {"empty": b"", "small": b"x" * 10, "large": bytes(range(256)) * 90_000}


class FolderSuite:
    """Tests of one kind of folder, which is empty."""

    def test_all_files_below_a_folder_are_listed_with_sizes_and_times(self, folder: Folder) -> None:
        folder.write("logs/1", b"one")
        folder.write("logs/deep/2", b"three")
        folder.write("other/3", b"")
        found = {each.path: each for each in folder.list_files("logs")}
        assert {path: each.size for path, each in found.items()} == {"logs/1": 3, "logs/deep/2": 5}
        assert all(abs(each.modified - (folder.modified(path) or 0)) <= 1 for path, each in found.items())
        assert {each.path for each in folder.list_files("")} == {"logs/1", "logs/deep/2", "other/3"}
        assert list(folder.list_files("nothing")) == []

    def test_large_and_small_files_are_what_was_written(self, folder: Folder, tmp_path: Path) -> None:
        local = LocalFolder(f"file://{tmp_path}/beside")
        for name, held in FILES.items():
            local.write(name, held)
            digest = local.digest(name)
            assert local.copy(name, folder, f"in/{name}") == digest
            assert folder.copy(f"in/{name}", folder, f"again/{name}") == digest
            assert folder.copy(f"again/{name}", local, f"back/{name}") == digest
            assert (folder.read(f"in/{name}"), folder.digest(f"in/{name}")) == (held, digest)
            assert folder.size(f"in/{name}") == len(held)
        assert sorted(folder.walk("")) == sorted(f"{f}/{name}" for f in ("again", "in") for name in FILES)
        assert (folder.names(""), folder.names("in")) == (["again", "in"], ["empty", "large", "small"])

    def test_a_file_takes_the_place_of_an_older_one(self, folder: Folder) -> None:
        for held in (b"first", b"second"):
            folder.write("a/b", held)
            assert folder.read("a/b") == held
        assert folder.fill("a/b", (b"th", b"ird")).size == 5
        folder.write("from/c", b"fourth")
        assert folder.move("from/c", "a/b")
        assert not folder.move("from/c", "a/b")
        assert (folder.read("a/b"), list(folder.walk(""))) == (b"fourth", ["a/b"])
        now = datetime.now(UTC).timestamp()
        assert folder.modified("a/b") == pytest.approx(now, abs=3600)

    def test_of_a_large_file_the_beginning_is_read(self, folder: Folder) -> None:
        for name, held in FILES.items():
            folder.write(f"in/{name}", held)
            assert folder.read(f"in/{name}", 300) == held[:300]
        assert folder.read("in/none", 300) is None

    def test_what_is_not_there_is_nothing(self, folder: Folder) -> None:
        for path in ("none", "none/below"):
            found = (folder.read(path), folder.digest(path), folder.size(path), folder.modified(path))
            assert found == (None,) * 4
            assert (folder.names(path), list(folder.walk(path))) == ([], [])
            folder.delete(path)
            folder.remove(path)
            assert not folder.move(path, "a/b")
            with pytest.raises(UnavailableError, match=path):
                list(folder.chunks(path))

    def test_a_folder_below_has_the_same_files(self, folder: Folder) -> None:
        below = folder.below("a/b")
        below.write("c", b"held")
        below.link("c", folder, "linked")
        assert below.root.startswith(folder.root)
        assert below.root.endswith("/a/b")
        assert (folder.read("a/b/c"), folder.read("linked")) == (b"held", b"held")
        folder.remove("a")
        assert (below.read("c"), list(folder.walk(""))) == (None, ["linked"])
        folder.delete("linked")
        assert list(folder.walk("")) == []

    def test_what_breaks_off_while_it_is_written_takes_no_place(self, folder: Folder) -> None:
        def break_off() -> Iterator[bytes]:
            yield b"half"
            raise RuntimeError("the source broke off")

        folder.write("a/b", b"whole")
        with pytest.raises(RuntimeError, match="the source broke off"):
            folder.fill("a/b", break_off())
        assert folder.read("a/b") == b"whole"
