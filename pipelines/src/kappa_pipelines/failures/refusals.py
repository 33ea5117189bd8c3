"""Why the API server refuses pods of executors, and how Spark ends for it. Pure."""

import re

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import UnavailableError, shorten

OUT_OF_MEMORY_CODE = 3
"""Exit code of a JVM with -XX:+ExitOnOutOfMemoryError."""
FAILED_EXECUTORS_CODE = 11
"""Exit code of Spark's driver after more failures of executors than `spark.executor.maxNumFailures`."""
_ADVICE = "raise it, or lower spec.resources"
_LIMIT = 1000
_ANSWER = re.compile(r"Message: (?P<text>.*?)\.? Received status", re.DOTALL)
_POD = re.compile(r'^pods "[^"]*" is forbidden: ')
_EXCEEDED = re.compile(
    r"exceeded quota: (?P<name>\S+), requested: (?P<requested>\S+), used: (?P<used>\S+), limited: (?P<limited>\S+)$"
)
_INCOMPLETE = re.compile(r"failed quota: (?P<name>\S+): must specify (?P<fields>.+)$")


def explain_refusal(answer: str) -> str:
    """Return why a pod of an executor is refused, by the message of Spark's client; empty where none is.

    The number of the pod is left out, as each attempt has another one.
    """
    if not answer:
        return ""
    found = _ANSWER.search(answer)
    text = _POD.sub("", found["text"] if found else answer)
    exceeded, incomplete = _EXCEEDED.match(text), _INCOMPLETE.match(text)
    if exceeded:
        figures = f"requested {exceeded['requested']}, used {exceeded['used']}, limited {exceeded['limited']}"
        text = f"ResourceQuota {exceeded['name']!r} has no room: {figures}; {_ADVICE}"
    elif incomplete:
        text = f"ResourceQuota {incomplete['name']!r} wants {incomplete['fields']}; set them, or change the quota"
    return shorten(f"the API server refuses executors: {text}", _LIMIT)


def explain_end(code: int) -> UnavailableError:
    """Return the error for a JVM that has ended with an exit code."""
    if code == OUT_OF_MEMORY_CODE:
        return UnavailableError(
            Reason.DRIVER_OUT_OF_MEMORY, "the driver's JVM ran out of memory; raise resources.driver.memory"
        )
    if code == FAILED_EXECUTORS_CODE:
        return UnavailableError(
            Reason.EXECUTORS_FAILED,
            "Spark ended the driver because too many executors failed (spark.executor.maxNumFailures); the log of the driver has"
            " how they ended, often for too little resources.executors.memory",
        )
    return UnavailableError(Reason.DRIVER_CRASHED, f"the driver's JVM ended with code {code}")
