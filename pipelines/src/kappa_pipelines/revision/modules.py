"""Python modules in a revision: files on the Python path of the driver, and of the workers through Spark."""

import importlib
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision


def install_modules(spark: SparkSession, revision: Revision) -> None:
    """Make the revision's modules importable; executors fetch them from the driver."""
    if not revision.modules:
        return
    folder = Path(tempfile.mkdtemp(prefix="kappa-modules-"))
    sys.path.insert(0, str(folder))
    for name, text in revision.modules.items():
        (folder / name).write_text(text)
        spark.sparkContext.addPyFile(str(folder / name))
    importlib.invalidate_caches()
