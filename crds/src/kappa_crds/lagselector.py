"""Which consumer groups a LagPolicy is about."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, ResourceName, Rule

Glob = Annotated[
    str,
    Field(min_length=1, max_length=255),
    Rule(
        r"self.matches('^[!-~]+$') && !self.matches('[\\[\\]{}]')",
        "must be the name of a group, or a pattern of names, in which only * and ? have a meaning, such as billing-*",
    ),
]
LabelValue = Annotated[str, Field(max_length=63)]


class PipelineSelector(Model):
    """Pipelines of the namespace, by name or by labels."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.names) != has(self.matchLabels)",
            "selector.pipelines takes either names or matchLabels; matchLabels: {} selects all pipelines of the namespace",
        ),
    )
    names: Annotated[tuple[ResourceName, ...] | None, Field(min_length=1, max_length=64)] = None
    """Names of Pipelines."""
    match_labels: Annotated[dict[str, LabelValue] | None, Field(max_length=16)] = None
    """Labels that a Pipeline has to have; all Pipelines where empty."""


class LagSelector(Model):
    """The consumer groups that a policy is about."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.pipelines) || (has(self.groups) && self.groups.size() > 0)",
            "spec.selector selects nothing; set selector.pipelines, selector.groups, or both",
        ),
    )
    pipelines: PipelineSelector | None = None
    """Pipelines, each of which is a group of its own."""
    groups: Annotated[tuple[Glob, ...], Field(max_length=64)] = ()
    """Consumer groups by name; * stands for any letters, ? for one. Groups in which sinks keep their marks
    are left out."""
