"""The effect of a change on state, by its plans: both revisions are compiled on this machine and compared.

It is the comparison of a driver (ADR 0014) without its dry run: state and retained records are not checked.
"""

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeVerdict
from kappa_pipelines.errors import DriverError
from kappa_pipelines.jars import JarError
from kappa_pipelines.laptop.revision import build_local_settings
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.plan.fingerprint import QueryFingerprint, build_fingerprints
from kappa_pipelines.upgrade.compare import compare_partitions, compare_pipelines, judge


def judge_change(old: Revision, new: Revision) -> UpgradeVerdict:
    """Return the verdict on a change between revisions; RuntimeError if one cannot be compiled here."""
    try:
        spark = start_spark(_localize(new))
        before, after = (_read(spark, _localize(each)) for each in (old, new))
    except DriverError as error:
        raise RuntimeError(f"{error.reason}: {error.message}") from error
    except (JarError, OSError) as error:
        raise RuntimeError(str(error)) from error
    partitions = compare_partitions(old.tuning.shuffle_partitions, new.tuning.shuffle_partitions)
    return judge([*compare_pipelines(before, after), *partitions])


def _read(spark: SparkSession, revision: Revision) -> dict[str, QueryFingerprint]:
    with _import_from(revision.modules or {}):
        return build_fingerprints(revision, compile_revision(spark, revision))


@contextlib.contextmanager
def _import_from(modules: dict[str, str]) -> Iterator[None]:
    """Make modules of a revision importable in this process only: workers run nothing here, and would cache those of the first revision."""
    names = [PurePath(name).stem for name in modules]
    with tempfile.TemporaryDirectory(prefix="kappa-modules-") as folder:
        for name, text in modules.items():
            (Path(folder) / name).write_text(text)
        _forget(names)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)
            _forget(names)


def _forget(names: list[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def _localize(revision: Revision) -> Revision:
    """Return the revision as this machine can compile it: with Spark in this process, and the topics that it names."""
    here = {"checkpoint": "", "bucket": None, "hdfs": None, "spark_conf": build_local_settings(revision.spec)}
    return revision.model_copy(update=here)
