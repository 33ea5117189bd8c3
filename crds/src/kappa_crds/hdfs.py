"""Access to a folder in HDFS, by Spark at the RPC port of the namenode and by Python over WebHDFS, and the errors of HDFS.

Source: the WebHDFS REST API of Apache Hadoop 3. A request that moves data is answered with the address of a datanode, and made there
once more. A refusal is JSON with the name of Hadoop's exception.
"""

import json
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from pydantic import Field

from kappa_crds.model import Model

SCHEME = "hdfs"
USER_VARIABLE = "HADOOP_USER_NAME"
"""The variable with the user name for the Hadoop client."""
_TEXT_LIMIT = 400


class HdfsConnection(Model):
    """Where WebHDFS is, the user, and how many copies of a block are kept. There is no secret: HDFS does not verify the name."""

    web: str
    user: str
    replication: Annotated[int, Field(ge=1)] = 3


def build_web_url(connection: HdfsConnection, path: str, operation: str, **query: str) -> str:
    """Return the URL of an operation of WebHDFS on a path, which begins with a slash."""
    parameters = urlencode({"op": operation, "user.name": connection.user, **query})
    return f"{connection.web}/webhdfs/v1{quote(path)}?{parameters}"


def explain_refusal(status: int, body: bytes) -> tuple[str, str]:
    """Return the name of the exception in a response, empty if there is none, and its message, in one line."""
    try:
        remote: dict[str, Any] = json.loads(body)["RemoteException"]
        name, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        return "", f"HTTP {status}: {_shorten(body.decode(errors='replace'))}"
    return name, f"{name}: {_shorten(message)}"


def _shorten(text: str) -> str:
    """Drop the stack trace, which follows the message."""
    return " ".join(text.split("\n\tat ", maxsplit=1)[0].split())[:_TEXT_LIMIT]
