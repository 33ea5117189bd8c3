"""A schema registry with the Confluent REST API: its address, and the schema to use."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, Rule
from kappa_crds.resource import CaSecretRef, SecretRef


class SchemaRegistry(Model):
    """A subject in a schema registry."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.caSecretRef) || self.url.startsWith('https://')",
            "caSecretRef is for a url that starts with https://; change the url, or remove caSecretRef",
        ),
    )
    url: Annotated[
        str,
        Field(min_length=8, max_length=1024),
        Rule(
            "self.matches('^https?://[^/@?# ]+(/[^?#@ ]*)?$')",
            "must be an http or https address without user, password and query, such as http://registry.kafka.svc:8081",
        ),
    ]
    """Address of the registry, with a path where it has one: `https://registry.example.com/apis/ccompat/v7`."""
    subject: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    """Subject with the versions of the schema; the topic's name in Kafka and `-value` where left out. Needed
    with `topics` and `topicPattern`."""
    version: Annotated[int | None, Field(ge=1)] = None
    """Version whose fields become the columns. Where left out it is the latest when the pipeline first
    starts, and stays that one. Records of all versions are read."""
    credentials_secret_ref: SecretRef | None = None
    """A Secret with the keys username and password, for HTTP basic authentication."""
    ca_secret_ref: CaSecretRef | None = None
    """The authorities that signed the registry's certificate."""
