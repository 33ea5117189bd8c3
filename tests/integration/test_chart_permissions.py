"""The rules that all tests of the operator run with are those that Helm renders."""

import pytest

from fakes.permissions import read_lease_rules, read_rules
from monitored.chart import find, render


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [((), "ClusterRole", "kappa-operator"), (("watchNamespaces={shop}",), "Role", "kappa-operator")],
)
def test_the_rendered_rules_are_the_ones_of_the_tests(values: tuple[str, ...], kind: str, name: str) -> None:
    assert find(render(*values), kind)[name]["rules"] == read_rules()


def test_the_rendered_rules_of_the_lease_are_the_ones_of_the_tests() -> None:
    assert find(render(), "Role")["kappa-operator-lease"]["rules"] == read_lease_rules()
