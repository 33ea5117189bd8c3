"""A volume that is small enough to be filled by a test: a few megabytes of memory, mounted where the node sees it."""

import contextlib
import errno
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import kube

_MEBIBYTES = 24
_USER = 1000


class SmallVolume:
    """A context that makes a PersistentVolume for one claim, and takes both mount and volume away."""

    def __init__(self, namespace: str, claim: str) -> None:
        self.name = f"{namespace}-{claim}"
        self._claim = {"namespace": namespace, "name": claim}
        self.folder = Path(tempfile.mkdtemp(prefix="kappa-small-volume-"))
        self._ballast = self.folder / "ballast"

    def __enter__(self) -> Self:
        options = f"size={_MEBIBYTES}m,uid={_USER},gid={_USER},mode=0770"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kappa-small", self.folder], check=True)
        kube.apply([self._build()])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kube.kubectl("delete", "persistentvolume", self.name, "--ignore-not-found", "--wait=false")
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.folder.rmdir()

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert os.statvfs(self.folder).f_bavail == 0, errno.errorcode[errno.ENOSPC]

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink()

    def _build(self) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.name},
            "spec": {
                "capacity": {"storage": f"{_MEBIBYTES}Mi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": self._claim,
                "hostPath": {"path": str(self.folder), "type": "Directory"},
            },
        }
