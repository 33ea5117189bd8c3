"""The fence of a checkpoint in a bucket: each generation of drivers writes below its own prefix.

A new generation first creates an object that claims the fencing token. Then it finds the newest complete generation, writes a
sentinel in place of the next batch of that one, and copies the small files to its own prefix. A fenced driver can plan no further
batch, and no driver reads what it commits. See ADR 0015, and `bucket_layout`.
"""

import re
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.bucket_layout import (
    CLAIMS,
    LAYOUTS,
    BucketView,
    CheckpointLayout,
    find_generations,
    own_prefix,
    read_layout,
)
from kappa_pipelines.checkpoint.fence.fence import BATCHES, INTERNAL_FOLDER, RESTORED, Fence
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import FencedError, UnavailableError

SENTINEL = b"sealed by generation "
_FENCED = re.compile(r"taken over by generation (\d+)")
_ENTRY = re.compile(r"^([^/]+)/(offsets|commits)/(\d+)(\.crc)?$")
_KEPT_ENTRIES = 2
_COPIERS = 8
_TRIES = 20

log = structlog.get_logger()


class BucketFence(Fence):
    """Guards a checkpoint in a bucket for one generation."""

    files: BucketView

    def __init__(self, files: BucketFolder, generation: int, sinks: Iterable[str]) -> None:
        self.generation = generation
        self.root = f"viewfs://g{generation}"
        self._whole = files
        self._sinks = tuple(sinks)
        self._layout = CheckpointLayout()
        self.files = self._view(generation, self._layout)

    def acquire(self) -> None:
        self._claim()
        layout = read_layout(self._whole, self.generation)
        if layout is None:
            base = max(
                (g for g in find_generations(self._whole, LAYOUTS) if g < self.generation), default=None
            )
            layout = CheckpointLayout() if base is None else self._copy(base)
        self._load(layout)

    def publish(self) -> None:
        self._whole.write(
            f"{LAYOUTS}/{self.generation}", self._layout.model_dump_json(by_alias=True).encode()
        )
        self._refuse_newer()
        self._delete_older()

    def check(self) -> None:
        held = (self._whole.read(f"{CLAIMS}/{self.generation}") or b"").decode(errors="replace")
        fenced = _FENCED.match(held)
        if fenced:
            raise FencedError(self.generation, int(fenced[1]))
        if not held:  # a later generation has deleted the claim
            self._refuse_newer()

    def list_settings(self) -> dict[str, str]:
        table = f"fs.viewfs.mounttable.g{self.generation}"
        root = self._whole.root
        return {
            f"{table}.linkFallback": f"{root}/{own_prefix(self.generation)}",
            **{f"{table}.link./{path}": f"{root}/{prefix}" for path, prefix in self._layout.state.items()},
        }

    def _claim(self) -> None:
        """Claim the fencing token. Of two concurrent generations, each finds the other's claim or writes its own later."""
        self._refuse_newer()
        token = f"claimed {uuid.uuid4().hex}\n".encode()
        if not self._whole.create(f"{CLAIMS}/{self.generation}", token):
            self.check()
        for older in find_generations(self._whole, CLAIMS):
            if older < self.generation:
                self._whole.write(
                    f"{CLAIMS}/{older}", f"taken over by generation {self.generation}\n".encode()
                )
        self._refuse_newer()

    def _refuse_newer(self) -> None:
        self.refuse_newer(find_generations(self._whole, CLAIMS))

    def _load(self, layout: CheckpointLayout) -> None:
        self._layout = layout
        self.files = self._view(self.generation, layout)

    def _view(self, generation: int, layout: CheckpointLayout) -> BucketView:
        return BucketView(self._whole.root, self._whole.connection, generation, layout.state)

    def _copy(self, base: int) -> CheckpointLayout:
        """Fence a generation off and copy its files without its state to this one's prefix."""
        old = self._view(base, read_layout(self._whole, base) or CheckpointLayout())
        started = {name for name in old.names("") if "offsets" in old.names(name)}
        last = {sink: _write_sentinel(old, sink, self.generation) for sink in started.union(self._sinks)}
        paths = [path for path in old.walk_small() if _is_wanted(path, last)]
        with ThreadPoolExecutor(_COPIERS) as copiers:
            list(copiers.map(lambda path: old.link(path, self.files, path), paths))
        log.info("checkpoint acquired", generation=self.generation, base=base, copied=len(paths))
        return CheckpointLayout(base=base, state=old.find_partitions())

    def _delete_older(self) -> None:
        """Delete files of generations before the base of this one, without their state."""
        if self._layout.base is None:
            return
        for older in find_generations(self._whole, CLAIMS):
            if older < self._layout.base:
                old = self._view(older, CheckpointLayout())
                for path in list(old.walk_small()):
                    old.delete(path)
                self._whole.delete(f"{LAYOUTS}/{older}")
                self._whole.delete(f"{CLAIMS}/{older}")


def _write_sentinel(old: BucketView, sink: str, generation: int) -> int:
    """Stop the query of an older generation from planning a batch, and return its last batch; -1 if there is none.

    The sentinel has the name of the next entry of the offset log, so Spark reads it as that entry or fails to create the entry.
    """
    for _ in range(_TRIES):
        last = max((int(name) for name in old.names(f"{sink}/offsets") if name.isdigit()), default=-1)
        if last >= 0 and (old.read(f"{sink}/offsets/{last}") or b"").startswith(SENTINEL):
            return last - 1
        if old.create(f"{sink}/offsets/{last + 1}", SENTINEL + f"{generation}\n".encode()):
            return last
    message = (
        f"{old.root}: the previous driver of sink {sink!r} could not be fenced off: it plans batches too fast"
    )
    raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message)


def _is_wanted(path: str, last: dict[str, int]) -> bool:
    """Return whether the next generation needs a file: of logs the last entries, of internal files only RESTORED and BATCHES."""
    if path.startswith(f"{INTERNAL_FOLDER}/"):
        return path in (RESTORED, BATCHES)
    entry = _ENTRY.match(path)
    if entry is None:
        return True
    newest = last[entry[1]]
    return newest - _KEPT_ENTRIES < int(entry[3]) <= newest
