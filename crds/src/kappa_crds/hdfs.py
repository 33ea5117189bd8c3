"""Access to a folder in HDFS, by Spark at the RPC port of the namenode and by Python over WebHDFS.

Source: the WebHDFS REST API of Apache Hadoop 3. A request that moves data is answered with the address of a datanode, and made there
once more.
"""

from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field

from kappa_crds.model import Model

SCHEME = "hdfs"
USER_VARIABLE = "HADOOP_USER_NAME"
"""The variable with the user name for the Hadoop client."""


class HdfsConnection(Model):
    """Where WebHDFS is, the user, and how many copies of a block are kept. There is no secret: HDFS does not verify the name."""

    web: str
    user: str
    replication: Annotated[int, Field(ge=1)] = 3


def build_web_url(connection: HdfsConnection, path: str, operation: str, **query: str) -> str:
    """Return the URL of an operation of WebHDFS on a path, which begins with a slash."""
    parameters = urlencode({"op": operation, "user.name": connection.user, **query})
    return f"{connection.web}/webhdfs/v1{quote(path)}?{parameters}"
