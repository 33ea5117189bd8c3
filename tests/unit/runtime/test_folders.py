"""Folders on a mounted volume: one of its own, and a checkpoint as its driver reaches it."""

from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.store.local import LocalFolder
from unit.runtime.folder_suite import FolderSuite


class TestLocalFolder(FolderSuite):
    """What holds for every folder."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> LocalFolder:
        """Return an empty one."""
        return LocalFolder(f"file://{tmp_path}/store")


class TestFencedFolder(FolderSuite):
    """What holds for every folder, of a checkpoint whose fence was taken."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> LocalFolder:
        """Return the empty checkpoint of a driver."""
        fence = LinkFence(f"file://{tmp_path}/checkpoint", 1)
        fence.acquire()
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "g1").symlink_to("../checkpoint")
        return LocalFolder(f"file://{tmp_path}/outside/g1/below")
