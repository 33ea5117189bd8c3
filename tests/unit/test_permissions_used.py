"""The chart grants nothing that the operator does not use. This file comes last: it goes by what all other tests asked of their clusters."""

from pathlib import Path

import pytest

from fakes.permissions import Permission, PermittedCluster, expand, read_rules
from kappa_crds import GROUP
from kappa_crds.kinds import KINDS

ALL_KINDS = {("get", ""), ("list", ""), ("patch", "status")}
"""Verbs, and parts of a resource, that the engine uses for every kind by the same code."""


def test_every_permission_of_the_chart_is_used(request: pytest.FixtureRequest) -> None:
    files = set(Path(__file__).parent.glob("control/test_*.py"))
    is_divided = hasattr(request.config, "workerinput")  # by pytest-xdist
    if is_divided or not files <= {item.path for item in request.session.items}:
        pytest.skip("only a part of the tests runs")
    used = PermittedCluster.used
    ours = {(each.verb, each.resource.partition("/")[2]) for each in used if each.group == GROUP} & ALL_KINDS
    same = {
        Permission(GROUP, "/".join(filter(None, (kind.plural, part))), verb)
        for kind in KINDS
        for verb, part in ours
    }
    watched = {Permission(GROUP, kind.plural, "watch") for kind in KINDS} | {Permission("", "pods", "watch")}
    assert expand(read_rules()) - used - same - watched == set()
