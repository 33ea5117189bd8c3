"""Which files a savepoint needs, and what is said where one is missing or damaged."""

import io
import json
import zipfile

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.format.schemas import rewrite_schema_paths
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest, QueryPoint, read_manifest
from kappa_pipelines.savepoint.state import (
    Version,
    find_state_files,
    parse_lineage,
    parse_tables,
    unpack_head,
)
from unit.runtime.checkpoints import write_blocks, write_utf

VERSIONS = [Version(number, f"id{number}") for number in range(1, 8)]


def find(names: set[str], version: Version = VERSIONS[-1], tables: tuple[str, ...] = ("a.sst",)) -> list[str]:
    """Find the files of a version whose lineage goes back to version 1."""
    return find_state_files(
        "state/0/0",
        names,
        version,
        read_lineage=lambda name: [each for each in VERSIONS if each < version],
        read_tables=lambda name: tables,
    )


def changelogs(*numbers: int) -> set[str]:
    return {VERSIONS[number - 1].changelog for number in numbers}


def test_a_snapshot_of_the_version_itself_is_enough() -> None:
    assert find({"7_id7.zip", *changelogs(*range(1, 8))}) == ["7_id7.zip", "SSTs/a.sst"]


def test_changelogs_reach_back_to_the_latest_snapshot_with_their_checksums() -> None:
    names = {"2_id2.zip", "5_id5.zip", "5_id5.zip.crc", *changelogs(*range(1, 8)), "7_id7.changelog.crc"}
    assert find(names) == [
        "7_id7.changelog",
        "7_id7.changelog.crc",
        "6_id6.changelog",
        "5_id5.zip",
        "5_id5.zip.crc",
        "SSTs/a.sst",
    ]


def test_without_a_snapshot_all_changelogs_from_the_first_are_needed() -> None:
    assert find(changelogs(1, 2, 3), VERSIONS[2]) == [f"{n}_id{n}.changelog" for n in (3, 2, 1)]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (changelogs(1, 2, 3, 4, 5, 6), "7_id7.changelog"),
        ({"2_id2.zip", *changelogs(7, 6, 4, 3)}, "5_id5.changelog"),
        (changelogs(2, 3, 4, 5, 6, 7), "1_id1.changelog"),
        ({"5_other.zip", *changelogs(6, 7)}, "5_id5.changelog"),
    ],
    ids=["the version", "one between", "the first", "a snapshot of another attempt"],
)
def test_a_missing_file_is_named(names: set[str], missing: str) -> None:
    with pytest.raises(LostDataError, match=f"^state/0/0 lacks {missing}$") as raised:
        find(names)
    assert raised.value.reason is Reason.CHECKPOINT_DAMAGED


def test_a_lineage_that_starts_too_late_is_reported() -> None:
    with pytest.raises(LostDataError, match="lacks a snapshot of version 6 or before"):
        find_state_files(
            "state/0/0", changelogs(6, 7), VERSIONS[6], lambda name: [VERSIONS[5]], lambda name: ()
        )


def test_a_lineage_is_read_from_the_beginning_of_a_changelog() -> None:
    lineage = [{"version": version.number, "checkpointUniqueId": version.id} for version in VERSIONS[:2]]
    head = write_utf("v4") + write_utf(json.dumps(lineage)) + b"\0\0\0\x07records"
    assert unpack_head(write_blocks(head), "lz4") == head
    assert parse_lineage(head) == VERSIONS[:2]
    with pytest.raises(ValueError, match="incomplete"):
        parse_lineage(head[:20])


def test_the_tables_of_a_snapshot_are_read() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as files:
        tables = {"sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-x.sst", "sizeBytes": 5}]}
        files.writestr("metadata", "v1\n" + json.dumps(tables))
    assert parse_tables(made.getvalue()) == ["8-x.sst"]
    with pytest.raises(ValueError, match="not a snapshot"):
        parse_tables(made.getvalue()[:40])


@pytest.mark.parametrize(
    "written",
    [
        "file:/var/lib/kappa/one/_kappa/g3",
        "file:/var/lib/kappa/one",
        "s3a://bucket/answer/state/0",
    ],
)
def test_schemas_move_with_the_checkpoint(written: str) -> None:
    path = "/answer/state/0/_stateSchema/default/0_id"
    said = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [{"stateSchemaFilePaths": [written + path]}]}
    moved = rewrite_schema_paths("v2\n" + json.dumps(said), "answer/state/0", "file:///elsewhere/two")
    assert moved.startswith("v2\n")
    assert json.loads(moved[3:])["stateStoreInfo"][0]["stateSchemaFilePaths"] == [
        "file:///elsewhere/two" + path
    ]


MANIFEST = Manifest(
    name="one",
    namespace="shop",
    pipeline="orders",
    revision="orders-1",
    generation=3,
    created=1.5,
    checkpoint="file:///c",
    shuffle_partitions=2,
    versions={"spark": "4.2.0"},
    topics={"in": "in"},
    spec={"sources": []},
    queries=(
        QueryPoint(sink="out", id="u", batch=4, offsets={"in": {"in": {0: 7}}}, state_ids={0: (("a",),)}),
    ),
    files=(KeptFile(path="out/metadata", size=3, sha256="0" * 64),),
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read_manifest("one", MANIFEST.to_json()) == MANIFEST
    assert MANIFEST.size == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "has format 2, and this version reads format 1"),
        ({"queries": 5}, "queries: "),
        ({"files": [{"path": "../etc", "size": 1, "sha256": "0" * 64}]}, "a file outside its checkpoint"),
        ({"files": [{"path": "a", "size": 1, "sha256": "x"}]}, "files.0.sha256: "),
    ],
)
def test_a_damaged_manifest_is_reported_with_the_place(change: dict[str, object], words: str) -> None:
    text = json.dumps({**json.loads(MANIFEST.to_json()), **change})
    with pytest.raises(LostDataError, match=words) as raised:
        read_manifest("savepoints/one/manifest.json", text)
    assert raised.value.message.startswith("savepoints/one/manifest.json ")
    assert raised.value.reason is Reason.SAVEPOINT_DAMAGED
