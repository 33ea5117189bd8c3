"""One Spark session for all, as the commands find it when they run in one process, and a broker where one is wanted."""

from spark.conftest import broker, spark, topics

__all__ = ["broker", "spark", "topics"]
