"""A folder on a mounted volume."""

from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.store.folder import LocalFolder
from unit.runtime.folder_suite import FolderSuite


class TestLocalFolder(FolderSuite):
    """What holds for every folder."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> LocalFolder:
        """Return an empty one."""
        return LocalFolder(f"file://{tmp_path}/store")
