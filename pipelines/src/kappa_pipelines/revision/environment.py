"""Environment variables of a driver's pod: paths, its generation, the port of its control server."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverRole
from kappa_crds.reasons import Reason
from kappa_crds.replay import REPLAY_VARIABLE, ReplayProfile
from kappa_crds.revision import (
    CONTROL_PORT,
    CONTROL_TLS_PORT,
    CONTROL_TOKEN_FILE,
    GENERATION_VARIABLE,
    PYTHON_VARIABLE,
    REVISION_DIR,
    REVISION_KEY,
    ROLE_VARIABLE,
    STANDBY_VARIABLE,
    TERMINATION_FILE,
)
from kappa_pipelines.errors import SpecError

CONTROL_PORT_VARIABLE = "KAPPA_CONTROL_PORT"
CONTROL_TLS_PORT_VARIABLE = "KAPPA_CONTROL_TLS_PORT"
CONTROL_TOKEN_VARIABLE = "KAPPA_CONTROL_TOKEN_FILE"  # noqa: S105 - the name of a variable
POD_NAME_VARIABLE = "KAPPA_POD_NAME"
POD_ADDRESS_VARIABLE = "KAPPA_POD_ADDRESS"
TERMINATION_VARIABLE = "KAPPA_TERMINATION_FILE"


@dataclass(frozen=True)
class Environment:
    """Paths, and the generation of this process. The paths are overridden only outside a pod.

    A standby driver prepares and waits for its activation. `role` is the one in which it starts, `replay` the profile with which it reads the log. `pod_address` is the address for executors.
    """

    generation: int
    standby: bool = False
    role: DriverRole = DriverRole.ACTIVE
    revision_file: Path = Path(REVISION_DIR) / REVISION_KEY
    control_port: int = CONTROL_PORT
    control_tls_port: int = CONTROL_TLS_PORT
    control_token_file: Path = Path(CONTROL_TOKEN_FILE)
    termination_file: Path = Path(TERMINATION_FILE)
    pod_name: str | None = None
    pod_address: str | None = None
    replay: ReplayProfile | None = None


def read_environment(arguments: list[str], variables: Mapping[str, str] = os.environ) -> Environment:
    """Return the environment; SpecError if the generation is missing or not a number, or the role is unknown."""
    default = Environment(generation=0)
    generation = variables.get(GENERATION_VARIABLE, "")
    if not generation.isdigit():
        raise SpecError(
            Reason.INVALID_SPEC,
            f"{GENERATION_VARIABLE} must be the generation, a whole number; it is {generation!r}",
        )
    role = variables.get(ROLE_VARIABLE, default.role)
    if role not in set(DriverRole):
        known = ", ".join(DriverRole)
        raise SpecError(Reason.INVALID_SPEC, f"{ROLE_VARIABLE} must be one of {known}; it is {role!r}")
    return Environment(
        generation=int(generation),
        standby=variables.get(STANDBY_VARIABLE) == "1",
        role=DriverRole(role),
        revision_file=Path(arguments[0]) if arguments else default.revision_file,
        control_port=int(variables.get(CONTROL_PORT_VARIABLE, default.control_port)),
        control_tls_port=int(variables.get(CONTROL_TLS_PORT_VARIABLE, default.control_tls_port)),
        control_token_file=Path(variables.get(CONTROL_TOKEN_VARIABLE, default.control_token_file)),
        termination_file=termination_file(variables),
        pod_name=variables.get(POD_NAME_VARIABLE),
        pod_address=variables.get(POD_ADDRESS_VARIABLE),
        replay=_read_replay(variables.get(REPLAY_VARIABLE)),
    )


def _read_replay(text: str | None) -> ReplayProfile | None:
    if text is None:
        return None
    try:
        return ReplayProfile.model_validate_json(text)
    except ValidationError as error:
        raise SpecError(
            Reason.INVALID_SPEC, f"{REPLAY_VARIABLE} has no profile of a replay: {error}"
        ) from error


def check_python(spec: PipelineSpec, variables: Mapping[str, str] = os.environ) -> None:
    """Raise SpecError if a pipeline has Python of its author, and this process may not run it."""
    if spec.python and variables.get(PYTHON_VARIABLE) == "false":
        raise SpecError(Reason.PYTHON_FORBIDDEN, f"Python is not allowed here: {', '.join(spec.python)}")


def termination_file(variables: Mapping[str, str] = os.environ) -> Path:
    """Return where the exit is written; it is needed even if the rest of the environment is invalid."""
    return Path(variables.get(TERMINATION_VARIABLE, TERMINATION_FILE))
