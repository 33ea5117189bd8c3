"""Names that a source has outside of Kubernetes, and where the workers of Kafka Connect find its Secrets."""

import hashlib

from kappa_crds.databases import PostgreSql
from kappa_operator.connect.names import SOURCES_DIR, SOURCES_PROVIDER

USERNAME, PASSWORD, CA, TRUSTSTORE = "username", "password", "ca.crt", "p12"
"""Ends of the keys of a source in that Secret."""
_LONGEST = 63


def name_key(source: str, part: str) -> str:
    """Return the key of a source in the Secret of the workers."""
    return f"{source}.{part}"


def refer(source: str, part: str) -> str:
    """Return the text that Kafka Connect replaces by a value of the source's credentials."""
    return f"${{{SOURCES_PROVIDER}:{SOURCES_DIR}:{name_key(source, part)}}}"


def find_file(source: str, part: str) -> str:
    """Return the file of the workers with a value of the source's."""
    return f"{SOURCES_DIR}/{name_key(source, part)}"


def name_slot(namespace: str, source: str, database: PostgreSql) -> str:
    """Return the slot of a source. The hash differs for sources of one name in several namespaces."""
    return database.slot or _build_name(namespace, source)


def name_publication(namespace: str, source: str, database: PostgreSql) -> str:
    """Return the publication of a source."""
    return database.publication or _build_name(namespace, source)


def _build_name(namespace: str, source: str) -> str:
    end = hashlib.sha256(f"{namespace}/{source}".encode()).hexdigest()[:8]
    known = "".join(char if char.isalnum() else "_" for char in source.lower())
    return f"kappa_{known[: _LONGEST - len(end) - 7]}_{end}"
