"""Pins the files of a batch in its checkpoint, so that Spark removing old batches cannot take them from who copies them.

A pin is a folder of links: of hard links on a volume, of copies within the store in a bucket. HDFS has neither, so only small files are
pinned there, and a copy of the state that is slower than `retainBatches` fails and reports that. Files that the runtime replaces stay
in a pin what they were.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.query import find_files, read_points

PINS = f"{INTERNAL_FOLDER}/pins"
IMMUTABLE = re.compile(r"/state/.*(\.zip|\.changelog|\.sst|\.crc)$")
_TRIES = 3

Points = tuple[QueryPoint, ...]
Run = Callable[[Callable[[str], object], Iterable[str]], Iterable[object]]


def pin_last_batch(
    files: Folder,
    sinks: Sequence[str],
    pin: Folder,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    run: Run = map,
) -> tuple[Points, list[str]]:
    """Link the files of the last committed batch of each query to a folder; return the batches and all their files.

    What Spark removed in between is found by another try, with a newer batch; LostDataError or UnavailableError is the last try's. `wanted`
    are the files to link, and `run` does so.
    """
    for left in reversed(range(_TRIES)):
        pin.remove("")
        try:
            points = read_points(files, sinks)
            paths = list(find_files(files, sinks, points))
            for _ in run(partial(_link, files, pin), filter(wanted, paths)):
                pass
            return points, paths
        except (LostDataError, UnavailableError):
            if not left:
                raise
    raise AssertionError


def _link(files: Folder, pin: Folder, path: str) -> None:
    files.link(path, pin, path)
