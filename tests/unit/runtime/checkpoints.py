"""A checkpoint on disk as Spark leaves it, made by hand: one query with state in two partitions, and what the runtime keeps beside it."""

import io
import json
import zipfile
from pathlib import Path

import google_crc32c
import pyarrow as pa

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.revision import KafkaConnection, Revision, Tuning
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.checkpoint.store.local import LocalFolder

SPEC = {
    "sources": [{"name": "in", "topic": "in", "format": {"json": {"schema": "k STRING"}}}],
    "sinks": [{"name": "out", "from": "in", "kafka": {"topic": "out"}}],
}
BATCH = 4
VERSION = BATCH + 1


def build_revision(checkpoint: Path) -> Revision:
    return Revision(
        namespace="shop",
        pipeline="orders",
        uid="u",
        spec=PipelineSpec.model_validate(SPEC),
        kafka=KafkaConnection(bootstrap_servers=("kafka:9092",)),
        topics={"in": "in", "out": "out"},
        checkpoint=f"file://{checkpoint}",
        tuning=Tuning(shuffle_partitions=2),
        spark_conf={},
        image="none",
    )


def write_utf(text: str) -> bytes:
    """A text as Java's DataOutput.writeUTF has it."""
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def write_blocks(held: bytes) -> bytes:
    """Bytes as lz4-java's LZ4BlockOutputStream has them: a packed block, a raw one, and the mark of the end."""
    half = len(held) // 2
    packed = pa.Codec("lz4_raw").compress(held[:half], asbytes=True)
    blocks = [(0x25, packed, half), (0x15, held[half:], len(held) - half), (0x15, b"", 0)]
    return b"".join(
        b"LZ4Block"
        + bytes([token])
        + b"".join(n.to_bytes(4, "little") for n in (len(block), size, 0))
        + block
        for token, block, size in blocks
    )


def write_checked(path: Path, held: bytes) -> None:
    """A file, and beside it what Spark says of its bytes; a CRC is a number with a sign there."""
    path.write_bytes(held)
    crc = google_crc32c.value(held)
    said = {"algorithm": "CRC32C", "value": crc - 2**32 if crc >= 2**31 else crc, "mainFileSize": len(held)}
    path.with_name(path.name + ".crc").write_text(json.dumps(said))


def write_entry(path: Path, body: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("v2\n" + (body if isinstance(body, str) else json.dumps(body)))


def write_checkpoint(root: Path) -> None:
    out = root / "out"
    for batch in range(BATCH + 1):
        write_entry(out / "offsets" / str(batch), f'{{"conf":{{}}}}\nin:{{"in":{{"0":{10 * batch}}}}}')
        ids = {"0": [[f"p{part}v{batch + 1}"] for part in (0, 1)]}
        write_entry(out / "commits" / str(batch), {"stateUniqueIds": ids})
    (out / "metadata").write_text('{"id":"the-id"}')
    write_entry(out / "sources" / "in" / "0", '{"in":{"0":0}}')
    schema = out / "state" / "0" / "_stateSchema" / "default" / "0_x"
    schema.parent.mkdir(parents=True)
    schema.write_text("schema")
    store = {"storeName": "default", "stateSchemaFilePaths": [f"file:{schema}"]}
    write_entry(out / "state" / "0" / "_metadata" / "v2" / "0", {"stateStoreInfo": [store]})
    for part in (0, 1):
        folder = out / "state" / "0" / str(part)
        (folder / "SSTs").mkdir(parents=True)
        first = (1, 3)[part]  # the second has a snapshot, and what was before it is gone
        for version in range((1, 4)[part], VERSION + 2):  # the next batch is on its way
            lineage = [{"version": v, "checkpointUniqueId": f"p{part}v{v}"} for v in range(first, version)]
            head = write_utf("v4") + write_utf(json.dumps(lineage))
            write_checked(
                folder / f"{version}_p{part}v{version}.changelog", write_blocks(head + b"rows" * 50)
            )
    one = out / "state" / "0" / "1"
    (one / "SSTs" / "7-x.sst").write_bytes(b"table")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as files:
        files.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": "7-x.sst"}]}))
    write_checked(one / "3_p1v3.zip", made.getvalue())
    (root / "dead-letter").mkdir()
    (root / "dead-letter" / "in.json").write_text("{}")
    (root / "a file of somebody else").write_text("")
    (root / "_kappa").mkdir()
    (root / "_kappa" / "generation").write_text("1\n")


def fill(files: Folder, folder: Path) -> None:
    """Put a checkpoint as Spark leaves it where a driver writes."""
    write_checkpoint(folder)
    local = LocalFolder(f"file://{folder}")
    for path in local.walk(""):
        local.copy(path, files, path)
