"""The files of one state store of one partition, in checkpoint format 2 of Spark's RocksDB provider.

A version V with the unique id U is `V_U.zip`, a snapshot, or `V_U.changelog`, the changes since the previous version. A
changelog begins with its lineage: the previous versions back to a snapshot, each with its id. A snapshot's `metadata`
names its files below `SSTs`. Files never change. Source: RocksDBFileManager and StateStoreChangelog of Spark 4.2, and its
checkpoints.
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import LostDataError

_HEAD_BYTES = 2 * (2 + 2**16)
"""Bytes of an unpacked changelog that contain its version and its lineage: two texts in Java's format."""
_BLOCK = struct.Struct("<8sBiii")
_MAGIC, _RAW = b"LZ4Block", 0x10
CHECKSUM = ".crc"


class Version(NamedTuple):
    """A version of a store's state, with the id of the attempt that wrote it."""

    number: int
    id: str

    @property
    def snapshot(self) -> str:
        """Return the name of its snapshot."""
        return f"{self.number}_{self.id}.zip"

    @property
    def changelog(self) -> str:
        """Return the name of its changelog."""
        return f"{self.number}_{self.id}.changelog"


def find_state_files(
    folder: str,
    names: Collection[str],
    version: Version,
    read_lineage: Callable[[str], Iterable[Version]],
    read_tables: Callable[[str], Iterable[str]],
) -> list[str]:
    """Return the files in a store's folder that a version needs.

    `names` are the existing files. LostDataError names a missing one.
    """
    found: list[str] = []
    chain = [version]
    if version.snapshot not in names:
        _expect(folder, names, version.changelog)
        before = [each for each in read_lineage(version.changelog) if each.number < version.number]
        chain += sorted(before, reverse=True)
    for each in chain:
        if each.snapshot in names:
            tables = [f"SSTs/{name}" for name in read_tables(each.snapshot)]
            return [*found, *_with_checksum(names, each.snapshot), *tables]
        _expect(folder, names, each.changelog)
        found += _with_checksum(names, each.changelog)
    if chain[-1].number != 1:
        raise _lost(
            folder, f"a snapshot of version {chain[-1].number} or before, on which {version.changelog} builds"
        )
    return found


def unpack_head(packed: bytes, codec: str) -> bytes:
    """Return the beginning of a file that Spark compressed with this codec; ValueError if it cannot be unpacked.

    The format is that of lz4-java's LZ4BlockOutputStream: before each block its magic, a token of method and size, the packed and
    unpacked sizes, and a checksum.
    """
    if codec != "lz4":
        raise ValueError(f"the codec {codec} is not supported, only lz4 is")
    import pyarrow as pa  # noqa: PLC0415 - slow to load, and only savepoints need it here

    head, at = b"", 0
    while len(head) < _HEAD_BYTES and at + _BLOCK.size <= len(packed):
        magic, token, size, unpacked, _ = _BLOCK.unpack_from(packed, at)
        at += _BLOCK.size
        if magic != _MAGIC or len(packed) < at + size:
            raise ValueError("not a stream of LZ4 blocks, or incomplete")
        block = packed[at : at + size]
        raw = token & 0xF0 == _RAW
        head += block if raw else pa.Codec("lz4_raw").decompress(block, unpacked, asbytes=True)
        at += size
    return head


def parse_lineage(head: bytes) -> list[Version]:
    """Return the lineage at the beginning of a changelog; ValueError if there is none."""
    _, rest = _take_text(head)
    lineage, _ = _take_text(rest)
    return [Version(int(each["version"]), str(each["checkpointUniqueId"])) for each in json.loads(lineage)]


def parse_tables(snapshot: bytes) -> list[str]:
    """Return the files of a snapshot below `SSTs`; ValueError if it is not a snapshot."""
    try:
        with zipfile.ZipFile(io.BytesIO(snapshot)) as files:
            text = files.read("metadata").decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"not a snapshot of RocksDB: {error}") from error
    return [str(each["dfsSstFileName"]) for each in json.loads(text.partition("\n")[2])["sstFiles"]]


def _take_text(data: bytes) -> tuple[str, bytes]:
    """Return a text in the format of Java's DataOutput.writeUTF, with two bytes of length before it, and the rest."""
    length = int.from_bytes(data[:2], "big")
    if len(data) < 2 + length:
        raise ValueError("incomplete")
    return data[2 : 2 + length].decode(), data[2 + length :]


def _with_checksum(names: Collection[str], name: str) -> list[str]:
    return [name, name + CHECKSUM] if name + CHECKSUM in names else [name]


def _expect(folder: str, names: Collection[str], name: str) -> None:
    if name not in names:
        raise _lost(folder, name)


def _lost(folder: str, what: str) -> LostDataError:
    return LostDataError(Reason.CHECKPOINT_DAMAGED, f"{folder} lacks {what}")
