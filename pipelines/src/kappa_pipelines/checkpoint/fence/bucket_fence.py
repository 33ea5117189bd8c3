"""The fence of a checkpoint in a bucket: each generation of drivers writes below a prefix of its own.

Whoever takes over says so first, by an object that it creates; then looks for the newest generation that has all it needs,
puts an entry in the place of the batch that that one would plan next, and copies the little that is not state to its own prefix. So a
driver that was taken over from plans no further batch, and what it commits nobody reads. See ADR 0015, and `bucket_view`.
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
from kappa_pipelines.checkpoint.fence.link_fence import FOLDER
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import FencedError, UnavailableError

RESTORED = f"{FOLDER}/restored"
SENTINEL = b"sealed by generation "
_OVER = re.compile(r"taken over by generation (\d+)")
_ENTRY = re.compile(r"^([^/]+)/(offsets|commits)/(\d+)(\.crc)?$")
_KEPT_ENTRIES = 2
_COPIERS = 8
_TRIES = 20

log = structlog.get_logger()


class BucketFence:
    """Guards a checkpoint in a bucket for one generation. Needs no JVM."""

    def __init__(self, files: BucketFolder, generation: int, sinks: Iterable[str]) -> None:
        self.generation = generation
        self.root = f"viewfs://g{generation}"
        self.files = BucketView(files.root, files.connection, generation, {})
        self._whole = files
        self._sinks = tuple(sinks)
        self._layout = CheckpointLayout()

    def take(self) -> None:
        """Claim the checkpoint, shut out the generation before, and take over what it had; it counts from `open` on."""
        self._claim()
        known = read_layout(self._whole, self.generation)
        if known is not None:
            self._have(known)
            return
        base = max((g for g in find_generations(self._whole, LAYOUTS) if g < self.generation), default=None)
        self._have(CheckpointLayout() if base is None else self._take_over(base))

    def open(self) -> None:
        """Have the checkpoint as it is now be the pipeline's; FencedError if a newer generation has claimed it meanwhile."""
        self._whole.write(
            f"{LAYOUTS}/{self.generation}", self._layout.model_dump_json(by_alias=True).encode()
        )
        self._refuse_newer()
        self._forget()

    def check(self) -> None:
        """Raise FencedError if a newer generation has taken the checkpoint."""
        held = (self._whole.read(f"{CLAIMS}/{self.generation}") or b"").decode(errors="replace")
        over = _OVER.match(held)
        if over:
            raise FencedError(self.generation, int(over[1]))
        if not held:  # it is so old that it was forgotten
            self._refuse_newer()

    def list_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop by which `root` leads to the checkpoint as this generation has it."""
        table = f"fs.viewfs.mounttable.g{self.generation}"
        where = self._whole.root
        return {
            f"{table}.linkFallback": f"{where}/{own_prefix(self.generation)}",
            **{f"{table}.link./{path}": f"{where}/{home}" for path, home in self._layout.state.items()},
        }

    def _claim(self) -> None:
        """Say that this generation asks for the checkpoint: of two at once each sees the other's claim, or comes after it."""
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
        newest = max(find_generations(self._whole, CLAIMS), default=0)
        if newest > self.generation:
            raise FencedError(self.generation, newest)

    def _have(self, world: CheckpointLayout) -> None:
        self._layout = world
        self.files = BucketView(self._whole.root, self._whole.connection, self.generation, world.state)

    def _take_over(self, base: int) -> CheckpointLayout:
        """Copy what a generation has to this one's prefix, but for its state, and shut it out."""
        world = read_layout(self._whole, base) or CheckpointLayout()
        old = BucketView(self._whole.root, self._whole.connection, base, world.state)
        begun = {name for name in old.names("") if "offsets" in old.names(name)}
        last = {sink: _write_sentinel(old, sink, self.generation) for sink in begun.union(self._sinks)}
        paths = [path for path in old.walk_small() if _is_wanted(path, last)]
        with ThreadPoolExecutor(_COPIERS) as copiers:
            list(copiers.map(lambda path: old.link(path, self.files, path), paths))
        log.info("took over", generation=self.generation, base=base, copied=len(paths))
        return CheckpointLayout(base=base, state=old.find_partitions())

    def _forget(self) -> None:
        """Remove what generations had that this one no longer needs: all but their state, and all before its base."""
        if self._layout.base is None:
            return
        for older in find_generations(self._whole, CLAIMS):
            if older < self._layout.base:
                old = BucketView(self._whole.root, self._whole.connection, older, {})
                for path in list(old.walk_small()):
                    old.delete(path)
                self._whole.delete(f"{LAYOUTS}/{older}")
                self._whole.delete(f"{CLAIMS}/{older}")


def _write_sentinel(old: BucketView, sink: str, generation: int) -> int:
    """Have the query of a generation plan no further batch; return its last one, -1 if there is none.

    Its entry is in the place of the next one, so Spark finds it instead, or finds that it cannot write there.
    """
    for _ in range(_TRIES):
        last = max((int(name) for name in old.names(f"{sink}/offsets") if name.isdigit()), default=-1)
        if last >= 0 and (old.read(f"{sink}/offsets/{last}") or b"").startswith(SENTINEL):
            return last - 1
        if old.create(f"{sink}/offsets/{last + 1}", SENTINEL + f"{generation}\n".encode()):
            return last
    said = f"{old.root}: batches of {sink} are planned faster than they can be kept from it"
    raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, said)


def _is_wanted(path: str, last: dict[str, int]) -> bool:
    """Return whether the next generation needs a file: of logs the last entries, of what is of one checkpoint alone one mark."""
    if path.startswith(f"{FOLDER}/"):
        return path == RESTORED
    entry = _ENTRY.match(path)
    if entry is None:
        return True
    newest = last[entry[1]]
    return newest - _KEPT_ENTRIES < int(entry[3]) <= newest
