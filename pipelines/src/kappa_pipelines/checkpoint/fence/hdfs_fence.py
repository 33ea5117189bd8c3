"""The fence of a checkpoint in HDFS: the checkpoint is one folder with the generation in its name, and whoever takes over renames it.

    _kappa/generations/7    generation 7 asks for the checkpoint
    _kappa/begun            there was a driver, so there is a checkpoint to be found
    _kappa/g7/…             the checkpoint, while generation 7 has it; `_kappa/checkpoint` in it says that it is one
    _kappa/g6               a file: whose driver was taken over from

A rename is one step of the namenode, whatever the folder holds. From then on the path of the older driver leads nowhere, and what it had open
moves along without ever getting the name that it was for. See ADR 0018.
"""

import contextlib
import re

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.link_fence import FOLDER
from kappa_pipelines.checkpoint.store.hdfs import FOLDER_TYPE, HdfsFolder
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, MissingError, PresentError
from kappa_pipelines.errors import FencedError, UnavailableError

_CLAIMS, _BEGUN = f"{FOLDER}/generations", f"{FOLDER}/begun"
_MARK = f"{FOLDER}/checkpoint"
"""Below the checkpoint. A driver whose folder was renamed may make the old name again, but not this in it."""
_NAME = re.compile(r"g(\d+)")
_TRIES = 20
_SHUT = 100
"""How many older generations stay shut."""


class HdfsFence:
    """Guards a checkpoint in HDFS for one generation. Needs no JVM."""

    def __init__(self, whole: HdfsFolder, generation: int) -> None:
        self.generation = generation
        self.files = whole.show(_own_folder(generation))
        self.root = f"{whole.root}/{_own_folder(generation)}"
        self._whole = whole
        self._client = whole.client

    def take(self) -> None:
        """Claim the checkpoint, and give its folder this generation's name: from then on no older one reaches it."""
        try:
            self._claim()
            self._have()
            self._shut_older()
        except HdfsError as error:
            self._refuse_newer()  # which may have shut the way
            raise self._unavailable(f"it could not be claimed: {error}") from error

    def open(self) -> None:
        """Do nothing: what is written counts at once."""

    def list_settings(self) -> dict[str, str]:
        """Return none."""
        return {}

    def check(self) -> None:
        """Raise FencedError if a newer generation has taken the checkpoint."""
        try:
            if self._is_whole(self.generation):
                return
        except HdfsError as error:
            raise self._unavailable(f"it could not be read: {error}") from error
        self._refuse_newer()
        raise self._unavailable("it was removed")

    def _claim(self) -> None:
        """Say that this generation asks for it: of two at once each sees the other's claim, or comes after it."""
        self._refuse_newer()
        self._client.make_folder(self._whole.locate(f"{_CLAIMS}/{self.generation}"))
        self._refuse_newer()

    def _refuse_newer(self) -> None:
        newest = max(_list_claims(self._whole), default=0)
        if newest > self.generation:
            raise FencedError(self.generation, newest)

    def _have(self) -> None:
        """Rename the checkpoint, or make one where there was none ever; it counts if there is no newer claim after that."""
        for _ in range(_TRIES):
            self._refuse_newer()
            if self._is_whole(self.generation):
                break
            self._client.delete(self._locate(self.generation), recursive=True)
            base = find_owner(self._whole)
            if base is not None and base > self.generation:
                raise FencedError(self.generation, base)
            if base is None:
                self._client.make_folder(f"{self._locate(self.generation)}/{_MARK}")
            else:
                with contextlib.suppress(MissingError, PresentError):
                    self._client.rename(self._locate(base), self._locate(self.generation), replace=False)
        else:
            raise self._unavailable("it could not be claimed: others claim it all the time")
        self._client.make_folder(self._whole.locate(_BEGUN))

    def _shut_older(self) -> None:
        """Put a file where an older driver looks for its folder: it could make one there, and write into it what nobody reads."""
        open_to_it = _list_claims(self._whole) | set(_list_folders(self._whole))
        for number in sorted(each for each in open_to_it if each < self.generation):
            self._shut(number)
            self._client.delete(self._whole.locate(f"{_CLAIMS}/{number}"))
        shut = sorted(each for each in _list_places(self._whole) if each < self.generation)
        for number in shut[:-_SHUT]:
            self._client.delete(self._locate(number))

    def _shut(self, number: int) -> None:
        for _ in range(_TRIES):
            self._client.delete(self._locate(number), recursive=True)
            with contextlib.suppress(PresentError):
                self._client.create(self._locate(number), f"taken over by {self.generation}\n".encode())
                return
        raise self._unavailable(f"generation {number} could not be kept from it")

    def _is_whole(self, generation: int) -> bool:
        return _is_there(self._whole, f"{_own_folder(generation)}/{_MARK}")

    def _locate(self, generation: int) -> str:
        return self._whole.locate(_own_folder(generation))

    def _unavailable(self, why: str) -> UnavailableError:
        return _build_failure(self._whole, why)


def find_owner(whole: HdfsFolder) -> int | None:
    """Return the generation that has the checkpoint, None before there was one; UnavailableError if it cannot be found.

    Of folders with a mark it is the newest: an older one was made by a driver that then found itself taken over from. What was seen counts if
    no folder was renamed meanwhile.
    """
    for _ in range(_TRIES):
        is_begun = _is_there(whole, _BEGUN)
        seen = _list_folders(whole)
        marked = [number for number in seen if _is_there(whole, f"{_own_folder(number)}/{_MARK}")]
        if _list_folders(whole) != seen:
            continue
        if marked:
            return max(marked)
        if not is_begun:
            return None
        raise _build_failure(whole, "it was begun, and is in no folder")
    raise _build_failure(whole, "it is renamed all the time")


def _list_folders(whole: HdfsFolder) -> dict[int, int]:
    """Return the folders of generations with their ids, which a rename does not change."""
    try:
        entries = whole.client.list_folder(whole.locate(FOLDER))
    except MissingError:
        return {}
    named = ((_NAME.fullmatch(each["pathSuffix"]), each) for each in entries if each["type"] == FOLDER_TYPE)
    return {int(match[1]): each["fileId"] for match, each in named if match}


def _build_failure(whole: HdfsFolder, why: str) -> UnavailableError:
    said = f"the checkpoint {whole.root} is not usable: {why}"
    return UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, said)


def view_owned(whole: HdfsFolder, generation: int) -> HdfsFolder:
    """Return the checkpoint as a generation has it."""
    return whole.show(_own_folder(generation))


def _own_folder(generation: int) -> str:
    return f"{FOLDER}/g{generation}"


def _list_claims(whole: HdfsFolder) -> set[int]:
    """Return the generations that ask for the checkpoint: the one that has it, newer ones, and older ones that were not yet shut out."""
    return {int(name) for name in whole.names(_CLAIMS)}


def _list_places(whole: HdfsFolder) -> set[int]:
    """Return the generations that have a folder, or a file in its place."""
    return {int(match[1]) for name in whole.names(FOLDER) if (match := _NAME.fullmatch(name))}


def _is_there(whole: HdfsFolder, path: str) -> bool:
    try:
        whole.client.describe(whole.locate(path))
    except MissingError:
        return False
    return True
