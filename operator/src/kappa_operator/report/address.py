"""Where the report is and how the command `kappa` authenticates there."""

REPORT_PATH = "/report"
PROOF_PATH = "/report/log"
"""The proof that the log of a pipeline is whole."""
SERVICE = "kappa-operator"
PORT = "https"
PLAIN_PORT = "http"
"""The port of an operator without TLS: of release 0.2, or with `secureMetrics: false`."""
READER_ACCOUNT = "kappa-operator-reader"
"""The service account of which readers request a token."""
TOKEN_HEADER = "Kappa-Token"  # noqa: S105 - the name of a header
TOKEN_SECONDS = 600
"""The shortest time for which the API server issues a token."""


def build_audience(namespace: str) -> str:
    """Return who accepts the token: only the operator of this namespace, not even the API server."""
    return f"{SERVICE}.{namespace}.svc"
