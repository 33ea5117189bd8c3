"""How a driver reports the exception that ended it."""

from kappa_crds.progress import DriverExit
from kappa_pipelines.errors import DriverError, shorten


def describe_exit(error: DriverError) -> DriverExit:
    """Return the termination message of the container, shortened to the limit of Kubernetes."""
    return DriverExit(reason=error.reason, message=shorten(error.message), retryable=error.retryable)
