"""The fence of a checkpoint in HDFS: one folder with the generation in its name, which a new generation renames.

    _kappa/generations/7    generation 7 claims the checkpoint
    _kappa/begun            a driver has created the checkpoint
    _kappa/g7/…             the checkpoint of generation 7; `_kappa/checkpoint` in it marks it as complete
    _kappa/g6               a file: a newer driver fenced generation 6 off

A rename is one step of the namenode, whatever the size of the folder. Then the path of the older driver does not exist any more, and
its open files move with the folder and never get their final names. See ADR 0018.
"""

import contextlib
import re

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER, Fence
from kappa_pipelines.checkpoint.store.hdfs import FOLDER_TYPE, HdfsFolder
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, MissingError, PresentError
from kappa_pipelines.errors import FencedError, UnavailableError

_CLAIMS, _BEGUN = f"{INTERNAL_FOLDER}/generations", f"{INTERNAL_FOLDER}/begun"
_COMPLETE = f"{INTERNAL_FOLDER}/checkpoint"
"""Below the checkpoint. A fenced driver may create its old folder again, but not this file in it."""
_NAME = re.compile(r"g(\d+)")
_TRIES = 20
_FENCED_OFF = 100
"""Number of older generations whose names stay blocked by a file."""


class HdfsFence(Fence):
    """Guards a checkpoint in HDFS for one generation."""

    files: HdfsFolder

    def __init__(self, whole: HdfsFolder, generation: int) -> None:
        self.generation = generation
        self.files = view_owned(whole, generation)
        self.root = f"{whole.root}/{_own_folder(generation)}"
        self._whole = whole
        self._client = whole.client

    def acquire(self) -> None:
        try:
            self._claim()
            self._rename()
            self._fence_off_older()
        except HdfsError as error:
            self._refuse_newer()  # a newer driver may have blocked the path
            raise _unusable(self._whole, f"it could not be acquired: {error}") from error

    def check(self) -> None:
        try:
            if self._is_complete(self.generation):
                return
        except HdfsError as error:
            raise _unusable(self._whole, f"it could not be read: {error}") from error
        self._refuse_newer()
        raise _unusable(self._whole, "it was removed")

    def _claim(self) -> None:
        """Claim the fencing token. Of two concurrent generations, each finds the other's claim or writes its own later."""
        self._refuse_newer()
        self._client.make_folder(self._whole.locate(f"{_CLAIMS}/{self.generation}"))
        self._refuse_newer()

    def _refuse_newer(self) -> None:
        self.refuse_newer(_list_claims(self._whole))

    def _rename(self) -> None:
        """Rename the checkpoint, or create the first one; it counts if there is no newer claim after that."""
        for _ in range(_TRIES):
            self._refuse_newer()
            if self._is_complete(self.generation):
                break
            self._client.delete(self._locate(self.generation), recursive=True)
            base = find_owner(self._whole)
            if base is not None and base > self.generation:
                raise FencedError(self.generation, base)
            if base is None:
                self._client.make_folder(f"{self._locate(self.generation)}/{_COMPLETE}")
            else:
                with contextlib.suppress(MissingError, PresentError):
                    self._client.rename(self._locate(base), self._locate(self.generation), replace=False)
        else:
            raise _unusable(self._whole, "other drivers acquire it at the same time; restart the driver")
        self._client.make_folder(self._whole.locate(_BEGUN))

    def _fence_off_older(self) -> None:
        """Block the folder names of older drivers by files, so that they cannot create them again."""
        unblocked = _list_claims(self._whole) | set(_list_folders(self._whole))
        for number in sorted(each for each in unblocked if each < self.generation):
            self._fence_off(number)
            self._client.delete(self._whole.locate(f"{_CLAIMS}/{number}"))
        blocked = sorted(each for each in _list_names(self._whole) if each < self.generation)
        for number in blocked[:-_FENCED_OFF]:
            self._client.delete(self._locate(number))

    def _fence_off(self, number: int) -> None:
        for _ in range(_TRIES):
            self._client.delete(self._locate(number), recursive=True)
            with contextlib.suppress(PresentError):
                self._client.create(self._locate(number), f"taken over by {self.generation}\n".encode())
                return
        raise _unusable(self._whole, f"generation {number} could not be fenced off")

    def _is_complete(self, generation: int) -> bool:
        return _exists(self._whole, f"{_own_folder(generation)}/{_COMPLETE}")

    def _locate(self, generation: int) -> str:
        return self._whole.locate(_own_folder(generation))


def find_owner(whole: HdfsFolder) -> int | None:
    """Return the generation that has the checkpoint, None before the first; UnavailableError if it is not found.

    It is the newest complete folder; a fenced driver may have created an older one. The result counts if no folder was renamed
    meanwhile.
    """
    for _ in range(_TRIES):
        has_begun = _exists(whole, _BEGUN)
        seen = _list_folders(whole)
        complete = [number for number in seen if _exists(whole, f"{_own_folder(number)}/{_COMPLETE}")]
        if _list_folders(whole) != seen:
            continue
        if complete:
            return max(complete)
        if not has_begun:
            return None
        folders = f"{whole.root}/{INTERNAL_FOLDER}/g*"
        raise _unusable(
            whole,
            f"a driver has created it, but no folder {folders} has {_COMPLETE}; restore it from a savepoint",
        )
    raise _unusable(whole, "other drivers rename it at the same time; restart the driver")


def _list_folders(whole: HdfsFolder) -> dict[int, int]:
    """Return the folders of generations with their ids, which a rename does not change."""
    try:
        entries = whole.client.list_folder(whole.locate(INTERNAL_FOLDER))
    except MissingError:
        return {}
    named = ((_NAME.fullmatch(each["pathSuffix"]), each) for each in entries if each["type"] == FOLDER_TYPE)
    return {int(match[1]): each["fileId"] for match, each in named if match}


def _unusable(whole: HdfsFolder, why: str) -> UnavailableError:
    return UnavailableError(
        Reason.CHECKPOINT_UNAVAILABLE, f"the checkpoint {whole.root} is not usable: {why}"
    )


def view_owned(whole: HdfsFolder, generation: int) -> HdfsFolder:
    """Return the checkpoint of a generation."""
    return whole.show(_own_folder(generation))


def _own_folder(generation: int) -> str:
    return f"{INTERNAL_FOLDER}/g{generation}"


def _list_claims(whole: HdfsFolder) -> set[int]:
    """Return the generations with a claim: the owner, newer ones, and older ones that are not fenced off yet."""
    return {int(name) for name in whole.names(_CLAIMS)}


def _list_names(whole: HdfsFolder) -> set[int]:
    """Return the generations that have a folder or a file in its place."""
    return {int(match[1]) for name in whole.names(INTERNAL_FOLDER) if (match := _NAME.fullmatch(name))}


def _exists(whole: HdfsFolder, path: str) -> bool:
    try:
        whole.client.describe(whole.locate(path))
    except MissingError:
        return False
    return True
