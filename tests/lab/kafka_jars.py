"""Kafka's jars.

The same folder makes the image of the cluster's brokers and runs the single broker of a test.
"""

from pathlib import Path

from lab.maven import Jars
from lab.paths import SOURCES

VERSION = "4.3.1"
_JARS = Jars("kafka", SOURCES / "kafka" / "pom.xml", SOURCES / "kafka" / "jars.sha256")


def folder() -> Path:
    """Where the jars are, whether fetched yet or not."""
    return _JARS.folder


def fetch() -> Path:
    """Resolve the jars if they are not in the cache."""
    return _JARS.fetch()
