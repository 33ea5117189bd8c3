"""What is kept of plans beside a checkpoint, and what a driver that starts makes of it."""

from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.sink import OutputMode
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.plan.fingerprint import OperatorFingerprint, QueryFingerprint
from kappa_pipelines.upgrade.fingerprints import check_fit, read_fingerprints, write_fingerprints


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    """Give a checkpoint in which two queries have begun a batch."""
    folder = LocalFolder(str(tmp_path))
    for sink in ("out", "more"):
        folder.write(f"{sink}/offsets/0", b"v1")
    return folder


def shape(key: str) -> QueryFingerprint:
    counted = OperatorFingerprint(view="counted", operator="aggregation", parts={"keys": (key,)})
    return QueryFingerprint(
        sources={"clicks": "clicks"}, topic="out", mode=OutputMode.APPEND, operators=(counted,)
    )


def test_what_was_written_is_read_and_fits(files: LocalFolder) -> None:
    shapes = {"out": shape("k"), "more": shape("v")}
    write_fingerprints(files, shapes)
    assert read_fingerprints(files) == shapes
    check_fit(files, shapes)


def test_a_plan_that_the_state_was_not_kept_for_is_refused_with_all_reasons(files: LocalFolder) -> None:
    write_fingerprints(files, {"out": shape("k"), "more": shape("k")})
    with pytest.raises(LostDataError) as refused:
        check_fit(files, {"out": shape("v"), "more": shape("w")})
    assert refused.value.reason is Reason.STATE_INCOMPATIBLE
    assert (
        "sink 'out': view 'counted': the keys of the aggregation are v instead of k" in refused.value.message
    )
    assert "sink 'more'" in refused.value.message


@pytest.mark.parametrize("left", [".out.699b6959-44fa.tmp", ".out.0f3c22aa.part"])
def test_a_file_that_was_being_written_when_a_driver_died_is_none(files: LocalFolder, left: str) -> None:
    write_fingerprints(files, {"out": shape("k"), "more": shape("v")})
    files.write(f"_plans/{left}", b"")
    assert read_fingerprints(files).keys() == {"out", "more"}
    write_fingerprints(files, {"out": shape("k")})
    check_fit(files, {"out": shape("k")})


def test_a_query_that_has_begun_no_batch_has_no_state_to_fit(files: LocalFolder) -> None:
    write_fingerprints(files, {"new": shape("k")})
    assert read_fingerprints(files) == {}
    check_fit(files, {"new": shape("v")})


def test_a_sink_that_comes_back_is_compared_with_what_it_left(files: LocalFolder) -> None:
    write_fingerprints(files, {"out": shape("k"), "more": shape("k")})
    write_fingerprints(files, {"out": shape("k")})
    assert [name for name, kept in read_fingerprints(files).items() if kept.left] == ["more"]
    check_fit(files, {"out": shape("k")})
    check_fit(files, {"out": shape("k"), "more": shape("k")})
    with pytest.raises(LostDataError, match="sink 'more': view 'counted'"):
        check_fit(files, {"out": shape("k"), "more": shape("v")})
    write_fingerprints(files, {"out": shape("k"), "more": shape("k")})
    assert not any(kept.left for kept in read_fingerprints(files).values())


def test_a_text_that_cannot_be_understood_is_named(files: LocalFolder) -> None:
    files.write("_plans/out", b"{")
    with pytest.raises(LostDataError, match="_plans/out is invalid") as refused:
        check_fit(files, {"out": shape("k")})
    assert refused.value.reason is Reason.CHECKPOINT_DAMAGED
