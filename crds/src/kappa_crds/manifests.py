"""Manifests as users write them: YAML with one or several documents."""

from collections.abc import Iterator
from typing import Any

import yaml

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS


class ManifestError(ValueError):
    """A text that is no manifest."""


def read_manifests(text: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the platform's kinds, each with a namespace; ManifestError for text that is none."""
    known = {kind.name for kind in KINDS}
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ManifestError(f"not YAML: {error}") from error
    for document in filter(None, documents):
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(metadata, dict) or "kind" not in document or "name" not in metadata:
            raise ManifestError("a document has no kind or no metadata.name")
        if document["kind"] in known and document.get("apiVersion") == API_VERSION:
            metadata.setdefault("namespace", namespace)
            yield document
