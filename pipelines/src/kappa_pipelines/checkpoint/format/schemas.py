"""Absolute paths in a checkpoint.

Spark stores the paths of an operator's state schemas as absolute paths. Each driver reaches the checkpoint by its own path, so a
driver that acquires a checkpoint, or copies one, rewrites them first.
"""

import json

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError

_METADATA = "_metadata/v2"


def rewrite_all_schema_paths(files: Folder, root: str) -> None:
    """Rewrite the schema paths of all operators of a checkpoint to this root, which is a path to the same checkpoint."""
    for sink in files.names(""):
        for operator in files.names(f"{sink}/state"):
            folder = f"{sink}/state/{operator}"
            for name in filter(str.isdigit, files.names(f"{folder}/{_METADATA}")):
                _rewrite_file(files, folder, f"{folder}/{_METADATA}/{name}", root)


def _rewrite_file(files: Folder, folder: str, path: str, root: str) -> None:
    held = (files.read(path) or b"").decode(errors="replace")
    try:
        rewritten = rewrite_schema_paths(held, folder, root)
    except (ValueError, KeyError, TypeError) as error:
        message = f"the checkpoint {files.root} is damaged: {path} is invalid: {error}"
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, message) from error
    if rewritten != held:
        files.write(path, rewritten.encode())


def rewrite_schema_paths(text: str, folder: str, root: str) -> str:
    """Return the metadata of an operator with its schema paths below a root; its folder is `SINK/state/NUMBER`.

    ValueError, KeyError or TypeError if it does not have Spark's format.
    """
    version, _, body = text.partition("\n")
    metadata = json.loads(body)
    for store in metadata["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = [
            f"{root}/{path[path.rindex(f'{folder}/') :]}" for path in store["stateSchemaFilePaths"]
        ]
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'))}"
