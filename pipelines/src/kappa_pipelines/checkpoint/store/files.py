"""Small files beside a checkpoint, through Hadoop's file systems, so that a path may be local, S3 or HDFS.

Writing uses Spark's own CheckpointFileManager: a file appears whole or not at all, on stores without rename too.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_java_failure

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"


class CheckpointFiles:
    """Reads, lists and atomically writes small files below one folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        self._path = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
        factory = loader.loadClass(_MANAGER).getField("MODULE$").get(None)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        try:
            self._files = factory.create(self._path(self.root), configuration)
        except Py4JJavaError as error:
            raise self._unavailable("opened", self.root, error) from error

    def read(self, name: str) -> str | None:
        """Return a file's text, or None if there is none; UnavailableError if it cannot be read."""
        path = self._path(f"{self.root}/{name}")
        try:
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise self._unavailable("read", name, error) from error

    def write(self, name: str, text: str) -> None:
        """Write a file whole, in the place of an older one; UnavailableError if it cannot be written."""
        path = self._path(f"{self.root}/{name}")
        try:
            self._files.mkdirs(path.getParent())
            stream = self._files.createAtomic(path, True)
            try:
                stream.write(bytearray(text.encode()))
                stream.close()
            except Py4JJavaError:
                stream.cancel()
                raise
        except Py4JJavaError as error:
            raise self._unavailable("written", name, error) from error

    def delete(self, name: str) -> None:
        """Delete a file if it is there."""
        try:
            self._files.delete(self._path(f"{self.root}/{name}"))
        except Py4JJavaError as error:
            raise self._unavailable("deleted", name, error) from error

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        path = self._path(f"{self.root}/{folder}")
        try:
            if not self._files.exists(path):
                return []
            return [status.getPath().getName() for status in self._files.list(path)]
        except Py4JJavaError as error:
            raise self._unavailable("listed", folder, error) from error

    def _unavailable(self, verb: str, name: str, error: Any) -> UnavailableError:
        root = read_java_failure(error.java_exception).root
        return UnavailableError(
            Reason.CHECKPOINT_UNAVAILABLE,
            f"the checkpoint {self.root} is not usable: {name} could not be {verb}"
            f" ({root.kind.rsplit('.', 1)[-1]}: {first_lines(root.message)})",
        )
