"""The copies that killed dry runs leave in a checkpoint are removed at the next dry run and at the next start of a driver."""

from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.upgrade.dry_run import remove_copies


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    folder = LocalFolder(f"file://{tmp_path}/checkpoint")
    for path in ("out/offsets/4", "_kappa/dry-run-3/out/offsets/4", "_kappa/dry-run-12/out/offsets/4"):
        folder.write(path, b"x")
    return folder


def behind_a_fence(files: LocalFolder, generation: int) -> Folder:
    fence = LinkFence(files.root, generation)
    fence.acquire()
    return fence.files


@pytest.mark.parametrize(
    ("generation", "left"), [(2, ["dry-run-12", "dry-run-3"]), (3, ["dry-run-12"]), (12, [])]
)
@pytest.mark.parametrize("is_fenced", [False, True])
def test_copies_of_this_generation_and_of_older_ones_are_removed(
    files: LocalFolder, generation: int, left: list[str], is_fenced: bool
) -> None:
    remove_copies(behind_a_fence(files, generation) if is_fenced else files, generation)
    assert [name for name in files.names("_kappa") if name.startswith("dry-run")] == left
    assert files.read("out/offsets/4") == b"x"


def test_a_checkpoint_without_copies_is_accepted(tmp_path: Path) -> None:
    remove_copies(LocalFolder(f"file://{tmp_path}/none"), 7)
