"""What to say about a stored resource that the models refuse.

An older CRD may have let it in. Its spec means nothing, so nothing is done for it; its status says what is wrong.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from kappa_crds.kinds import find_kind
from kappa_crds.reasons import Reason
from kappa_crds.resource import Metadata, Resource, ResourceStatus
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import build_conditions, stalled

_SAID = 3


@dataclass(frozen=True, slots=True)
class Invalid:
    """The resource without its spec, and the status that says why."""

    resource: Resource[Any, Any]
    status: ResourceStatus


def decide_invalid(key: Key, body: dict[str, Any], now: datetime) -> Invalid | None:
    """Return what to say of the resource, or None where it is gone or not invalid at all."""
    if not body:
        return None
    kind = find_kind(key.kind)
    try:
        kind.parse(body)
    except ValidationError as error:
        metadata = Metadata.model_validate(body["metadata"])
        status = _read_status(kind.status, body)
        verdict = stalled("Failed", Reason.INVALID_SPEC, _explain(error))
        wanted = status.replace(
            observed_generation=metadata.generation,
            conditions=build_conditions(verdict, status.conditions, metadata.generation, now),
            state=verdict.state,
        )
        resource = Resource[Any, Any].model_construct(
            kind=key.kind, metadata=metadata, spec=None, status=status
        )
        return Invalid(resource, wanted)
    return None


def _read_status(model: type[ResourceStatus], body: dict[str, Any]) -> ResourceStatus:
    try:
        return model.model_validate(body.get("status") or {})
    except ValidationError:
        return model()


def _explain(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False)
    said = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in found[:_SAID]]
    more = f"; and {len(found) - _SAID} more" if len(found) > _SAID else ""
    return f"the resource is invalid: {'; '.join(said)}{more}; correct its spec"
