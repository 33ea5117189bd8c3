"""Checks of volumes: what a driver needs, and what the message advises."""

import errno
import os
from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint import check
from kappa_pipelines.checkpoint.check import check_store
from kappa_pipelines.errors import UnavailableError

NAME = "_kappa/check-u"


def test_a_volume_is_written_read_and_left_clean(tmp_path: Path) -> None:
    left = tmp_path / NAME / "fence" / "_kappa"
    left.mkdir(parents=True)
    (left / "g3").write_text("a check that was killed")
    found = check_store(f"file://{tmp_path}", NAME, None)
    assert (found.free_bytes or 0) > 2**20
    assert not (tmp_path / NAME).exists()


def test_a_volume_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="could not be written") as failure:
        check_store(f"file://{tmp_path}/file", NAME, None)
    assert failure.value.reason is Reason.STORE_CHECK_FAILED


@pytest.mark.parametrize(
    ("number", "reason", "advice"),
    [
        (errno.ENOSPC, Reason.STORE_FULL, "raise spec.pvc.size"),
        (errno.EDQUOT, Reason.STORE_FULL, "raise spec.pvc.size"),
        (errno.EROFS, Reason.STORE_CHECK_FAILED, f"uid {os.getuid()}"),
        (errno.EIO, Reason.STORE_CHECK_FAILED, "Input/output error"),
    ],
)
def test_the_message_advises_what_to_do(number: int, reason: Reason, advice: str) -> None:
    try:
        raise UnavailableError(
            Reason.CHECKPOINT_UNAVAILABLE, f"not written: {os.strerror(number)}"
        ) from OSError(number, "")
    except UnavailableError as error:
        explained = check._explain(error)
    assert explained.reason is reason
    assert advice in explained.message
