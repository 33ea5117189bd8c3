"""Pins the files of a batch in its checkpoint, so that they can be copied after Spark has deleted old batches.

A pin is a folder of hard links on a volume, and of copies within the store in a bucket. HDFS has neither, so only small files are
pinned there, and a copy of the state that is slower than `retainBatches` fails with that message. Files that the runtime replaces
later keep their content in a pin.
"""

import re
from collections.abc import Callable, Sequence

from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.query import Run, find_files, read_points

PINS = f"{INTERNAL_FOLDER}/pins"
IMMUTABLE = re.compile(r"/state/.*(\.zip|\.changelog|\.sst|\.crc)$")
_TRIES = 3

Points = tuple[QueryPoint, ...]


def pin_last_batch(
    files: Folder,
    sinks: Sequence[str],
    pin: Folder,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    run: Run = map,
) -> tuple[Points, list[str]]:
    """Link the `wanted` files of the last committed batch of each query to a folder; return the batches and all their files.

    If Spark deletes a file meanwhile, it is tried again with a newer batch; LostDataError or UnavailableError is that of the last try.
    `run` is `map`, or the parallel `map` of a pool.
    """
    for left in reversed(range(_TRIES)):
        pin.remove("")
        try:
            points = read_points(files, sinks)
            paths = list(find_files(files, sinks, points, run))
            list(run(lambda path: files.link(path, pin, path), filter(wanted, paths)))
            return points, paths
        except (LostDataError, UnavailableError):
            if not left:
                raise
    raise AssertionError
