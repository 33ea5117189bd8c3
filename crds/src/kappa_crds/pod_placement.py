"""Where the pods of a template may run: as in a pod of Kubernetes, but other namespaces cannot be named."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, Rule

Key = Annotated[str, Field(min_length=1, max_length=317)]
Text = Annotated[str, Field(max_length=63)]
LabelValue = Annotated[
    Text,
    Rule(
        "self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",
        "must be letters, digits, '-', '_' and '.', with a letter or digit first and last",
    ),
]
Values = Annotated[tuple[Text, ...], Field(max_length=64)]
Weight = Annotated[int, Field(ge=1, le=100)]


class Operator(StrEnum):
    """How a label is compared with values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Expression(Model):
    """A condition on a label."""

    key: Key
    """The label."""
    operator: Operator
    """How it is compared."""
    values: Values = ()
    """The values."""


Expressions = Annotated[tuple[Expression, ...], Field(max_length=16)]


class LabelSelector(Model):
    """Which pods are selected."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Labels with these values."""
    match_expressions: Expressions = ()
    """Conditions on labels."""


class NodeTerm(Model):
    """Which nodes are selected."""

    match_expressions: Expressions = ()
    """Conditions on labels of nodes."""
    match_fields: Expressions = ()
    """Conditions on fields of nodes."""


class NodeTerms(Model):
    """Nodes that one of the terms selects."""

    node_selector_terms: Annotated[tuple[NodeTerm, ...], Field(min_length=1, max_length=16)]
    """The terms."""


class PreferredNodes(Model):
    """Nodes that are better than others."""

    weight: Weight
    """How much better."""
    preference: NodeTerm
    """Which nodes."""


class NodeAffinity(Model):
    """Nodes by their labels."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    """Only these nodes."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(max_length=16)
    ] = ()
    """Rather these nodes."""


class PodTerm(Model):
    """Nodes by the pods of the same namespace that run on them."""

    label_selector: LabelSelector
    """Which pods."""
    topology_key: Key
    """Label of nodes: nodes with the same value are one place."""


class PreferredPods(Model):
    """Places that are better than others."""

    weight: Weight
    """How much better."""
    pod_affinity_term: PodTerm
    """Which places."""


class PodAffinity(Model):
    """Places by the pods of the same namespace in them."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodTerm, ...], Field(max_length=16)
    ] = ()
    """Only such places."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredPods, ...], Field(max_length=16)
    ] = ()
    """Rather such places."""


class Affinity(Model):
    """Which nodes are allowed or preferred."""

    node_affinity: NodeAffinity | None = None
    """By labels of nodes."""
    pod_affinity: PodAffinity | None = None
    """Near other pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Away from other pods."""


class Toleration(Model):
    """A taint of nodes that pods tolerate."""

    key: Key
    """Key of the taint. It is required: without it a pod would tolerate every taint."""
    operator: Annotated[
        str,
        Field(max_length=8),
        Rule("self in ['Equal', 'Exists']", "must be Equal or Exists"),
    ] = "Equal"
    """Equal compares the value, Exists does not."""
    value: Text = ""
    """Value of the taint."""
    effect: Annotated[
        str,
        Field(max_length=16),
        Rule(
            "self in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']",
            "must be NoSchedule, PreferNoSchedule or NoExecute",
        ),
    ] = ""
    """Effect of the taint. Default: every effect."""
    toleration_seconds: Annotated[int | None, Field(ge=0)] = None
    """How long a pod stays on a node after a taint with NoExecute."""


class SpreadConstraint(Model):
    """How evenly pods are spread."""

    max_skew: Annotated[int, Field(ge=1, le=1000)] = 1
    """Largest difference between two places."""
    topology_key: Key
    """Label of nodes: nodes with the same value are one place."""
    when_unsatisfiable: Annotated[
        str,
        Field(max_length=16),
        Rule("self in ['DoNotSchedule', 'ScheduleAnyway']", "must be DoNotSchedule or ScheduleAnyway"),
    ] = "DoNotSchedule"
    """Whether a pod waits, or is placed unevenly."""
    label_selector: LabelSelector
    """Which pods are counted."""
