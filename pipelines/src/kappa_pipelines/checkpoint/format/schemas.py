"""The whole paths that a checkpoint holds of its own files.

Spark writes where an operator keeps the schemas of its state as whole paths. A driver reaches the checkpoint by a path of its
own, and a copy is elsewhere, so whoever takes a checkpoint over has them lead through its own path first.
"""

import json

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError

_METADATA = "_metadata/v2"


def point_all_schemas(files: Folder, root: str) -> None:
    """Have all operators of a checkpoint find their schemas below a root, which is a path to the same checkpoint."""
    for sink in files.names(""):
        for operator in files.names(f"{sink}/state"):
            folder = f"{sink}/state/{operator}"
            for name in filter(str.isdigit, files.names(f"{folder}/{_METADATA}")):
                _point_file(files, folder, f"{folder}/{_METADATA}/{name}", root)


def _point_file(files: Folder, folder: str, path: str, root: str) -> None:
    held = (files.read(path) or b"").decode(errors="replace")
    try:
        pointed = point_schemas(held, folder, root)
    except (ValueError, KeyError, TypeError) as error:
        said = f"the checkpoint {files.root} is damaged: {path} cannot be understood: {error}"
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, said) from error
    if pointed != held:
        files.write(path, pointed.encode())


def point_schemas(text: str, folder: str, root: str) -> str:
    """Return what an operator says of itself with its schemas below a root; its folder is `SINK/state/NUMBER`.

    ValueError or KeyError if it is not what Spark writes.
    """
    version, _, body = text.partition("\n")
    said = json.loads(body)
    for kept in said["stateStoreInfo"]:
        kept["stateSchemaFilePaths"] = [
            f"{root}/{path[path.rindex(f'{folder}/') :]}" for path in kept["stateSchemaFilePaths"]
        ]
    return f"{version}\n{json.dumps(said, separators=(',', ':'))}"
