"""Whether a Secret may be used as a resource wants it: the Secret opts in by annotation, and no password is sent in clear.

The annotation `secrets.kappa-platform.io/USE` names the hosts that the Secret may be sent to (ADR 48). Who may edit Kappa's resources
often may not read Secrets: without consent a resource could have any Secret of its namespace sent to a server that its author names.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kappa_crds.reasons import Reason
from kappa_operator.errors import SecretProblem
from kappa_operator.hosts import Host
from kappa_operator.settings import Settings

PREFIX = "secrets.kappa-platform.io/"
KAFKA, KAFKA_OPERATOR, KAFKA_PIPELINES = "kafka", "kafka-operator", "kafka-pipelines"
"""A log-in to Kafka for operator and pipelines, or for one of them."""
KAFKA_CONNECT = "kafka-connect"
"""A log-in to Kafka for the workers of Kafka Connect."""
KAFKA_USERS = "kafka-users"
"""A log-in to Kafka with which the operator may create users of pipelines."""
TOPICS_ANNOTATION = f"{PREFIX}kafka-users-topics"
"""Of that Secret: the topics on which these users may have permissions, by name, or by their beginning and a star."""
REGISTRY, S3, WEBHOOK = "registry", "s3", "webhook"
CONNECT = "connect"
"""The REST API of a Kafka Connect that others run."""
DATABASE = "database"
"""A log-in to a database whose changes are read."""
_SEPARATORS = re.compile(r"[,\s]+")
_LONGEST = 1000
"""Characters of an annotation that a message repeats."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a resource wants a Secret for: names of the use, any of which the Secret may carry, and the hosts that it is sent to.

    The first name is proposed where none is there. `in_clear` names what is sent without TLS, such as "a password"; it is empty otherwise.
    """

    uses: tuple[str, ...]
    hosts: tuple[Host, ...]
    in_clear: str = ""

    @classmethod
    def of_url(cls, use: str, url: str, content: str = "") -> Self:
        """Return the purpose of a Secret whose content is sent to an address; raise SecretProblem for one that names no host."""
        return cls((use,), _parse(Host.of_url, (url,)), "" if url.startswith("https://") else content)

    @classmethod
    def of_servers(cls, uses: tuple[str, ...], servers: Iterable[str], in_clear: str = "") -> Self:
        """Return the purpose of a Secret whose content is sent to servers (`host:port`); raise SecretProblem for one that is none."""
        return cls(uses, _parse(Host.of_server, servers), in_clear)


def _parse(parse: Callable[[str], Host], texts: Iterable[str]) -> tuple[Host, ...]:
    try:
        return tuple(dict.fromkeys(parse(text) for text in texts))
    except ValueError as error:
        raise SecretProblem(
            f"{error}; no Secret is sent there", reason=Reason.SECRET_NOT_ALLOWED, retryable=False
        ) from None


def check_clear_text(purpose: Purpose, settings: Settings) -> None:
    """Raise SecretProblem where a password would be sent without TLS to a host that the installation does not allow."""
    refused = find_in_clear(purpose, settings)
    if refused:
        raise SecretProblem(
            f"{purpose.in_clear} would be sent to {_list(refused)} without TLS; use TLS, or add the host to the chart's secrets.allowClearText",
            reason=Reason.CLEAR_TEXT_CREDENTIALS,
            retryable=False,
        )


def check_consent(body: Mapping[str, Any], purpose: Purpose, settings: Settings) -> None:
    """Raise SecretProblem where a Secret does not allow its use at these hosts."""
    if not settings.require_opt_in:
        return
    metadata, refused = body["metadata"], find_refused(body, purpose)
    if refused:
        raise SecretProblem(
            f'Secret "{metadata["name"]}" does not allow its use for {purpose.uses[0]} at {_list(refused)}; if it is meant for'
            f" that, run: {build_command(metadata, purpose.uses[0], refused)}",
            reason=Reason.SECRET_NOT_ALLOWED,
        )


def find_refused(body: Mapping[str, Any], purpose: Purpose) -> list[Host]:
    """Return the hosts that a Secret may not be sent to."""
    annotations: Mapping[str, str] = body["metadata"].get("annotations") or {}
    allowed = [read_patterns(annotations.get(PREFIX + use, "")) for use in purpose.uses]
    return [host for host in purpose.hosts if not any(host.is_in(patterns) for patterns in allowed)]


def find_in_clear(purpose: Purpose, settings: Settings) -> list[Host]:
    """Return the hosts that something secret would be sent to without TLS, although the installation does not allow it."""
    if not purpose.in_clear:
        return []
    return [host for host in purpose.hosts if not (host.is_loopback or host.is_in(settings.allow_clear_text))]


def read_patterns(text: str) -> list[str]:
    """Return the patterns of an annotation: parts between commas or white space."""
    return [part for part in _SEPARATORS.split(text) if part]


def build_command(metadata: Mapping[str, Any], use: str, refused: Iterable[Host | str]) -> str:
    """Return the command that adds hosts, or names, to those of the annotation for a use."""
    annotation = PREFIX + use
    before = (metadata.get("annotations") or {}).get(annotation, "")
    known = read_patterns(before) if len(before) <= _LONGEST else ["…"]
    value = shlex.quote(",".join([*known, *map(str, refused)]))
    overwrite = " --overwrite" if before else ""
    return f"kubectl annotate secret {metadata['name']} -n {metadata['namespace']} {annotation}={value}{overwrite}"


def _list(hosts: Iterable[Host]) -> str:
    return ", ".join(map(str, hosts))
