"""Reads the revision and requests to workers: the only place where their JSON is parsed."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import SpecError

ModelT = TypeVar("ModelT", bound=BaseModel)


def load_revision(path: Path) -> Revision:
    """Return the revision in a file; SpecError if it is invalid."""
    return load_model(path, Revision, "revision")


def load_model(path: Path, model: type[ModelT], kind: str) -> ModelT:
    """Return the model in a file of JSON; SpecError if it is invalid."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecError(
            Reason.INVALID_SPEC, f"the {kind} file {path} cannot be read: {error.strerror}"
        ) from error
    except ValidationError as error:
        raise SpecError(
            Reason.INVALID_SPEC, f"{path} is not a valid {kind}: {_list_problems(error)}"
        ) from error


def _list_problems(error: ValidationError) -> str:
    """Return the problems of a document with their fields, at most five."""
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
    return "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
