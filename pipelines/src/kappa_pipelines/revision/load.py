"""Reads the revision: the only place where its JSON is parsed."""

from pathlib import Path

from pydantic import ValidationError

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import SpecError


def load_revision(path: Path) -> Revision:
    """Return the revision in a file; SpecError if it is invalid."""
    try:
        return Revision.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecError(
            Reason.INVALID_SPEC, f"the revision file {path} cannot be read: {error.strerror}"
        ) from error
    except ValidationError as error:
        raise SpecError(Reason.INVALID_SPEC, f"{path} is not a revision: {list_problems(error)}") from error


def list_problems(error: ValidationError) -> str:
    """Return the problems of a document with their fields, at most five."""
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
    return "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
