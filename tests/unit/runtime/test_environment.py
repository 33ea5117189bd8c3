"""What a driver reads from the environment of its pod."""

import pytest

from kappa_crds.progress import DriverRole
from kappa_pipelines.errors import SpecError
from kappa_pipelines.revision.environment import read_environment

GIVEN = {"KAPPA_GENERATION": "7"}


@pytest.mark.parametrize(
    ("given", "role"), [({}, "active"), *(({"KAPPA_ROLE": role}, role) for role in DriverRole)]
)
def test_a_driver_starts_in_its_role(given: dict[str, str], role: str) -> None:
    assert read_environment([], {**GIVEN, **given}).role == role


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"KAPPA_GENERATION": ""}, "must be the generation"),
        ({"KAPPA_GENERATION": "new"}, "must be the generation"),
        ({**GIVEN, "KAPPA_ROLE": "standby"}, "must be one of active, shadow, soaking; it is 'standby'"),
    ],
)
def test_an_environment_that_means_nothing_is_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_environment([], given)
