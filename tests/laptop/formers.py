"""State of an earlier release: a checkpoint has it by its stored fingerprints, continues with it, and neither plan takes that of the other."""

from collections.abc import Mapping
from pathlib import Path

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.plan.fingerprint import QueryFingerprint
from kappa_pipelines.upgrade.compare import compare_pipelines, judge
from kappa_pipelines.upgrade.fingerprints import find_former, write_fingerprints

FORMER = [("answer", "answer")]
"""The sink and the view whose state is a former one."""
_Fingerprints = Mapping[str, QueryFingerprint]


def check_former(folder: Path, spec: PipelineSpec, old: _Fingerprints, new: _Fingerprints, said: str) -> None:
    """Fail unless a checkpoint with the old state is found to be one, and changes between both are refused with a text."""
    files = LocalFolder(str(folder))
    assert find_former(files, spec) == frozenset()
    write_fingerprints(files, old)
    (folder / "answer" / "offsets").mkdir(parents=True)
    (folder / "answer" / "offsets" / "0").touch()
    assert find_former(files, spec) == set(FORMER)
    for first, second in ((old, new), (new, old)):
        verdict = judge(compare_pipelines(first, second))
        assert verdict.kind is VerdictKind.REPROCESS
        assert any(said in reason for reason in verdict.reasons), verdict.reasons
    write_fingerprints(files, new)
    assert find_former(files, spec) == frozenset()
