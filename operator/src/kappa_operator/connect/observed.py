"""What is seen of Kafka Connect, for the decision about a KafkaCluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_operator.connect.objects import WorkerOptions
from kappa_operator.errors import KappaError
from kappa_operator.kafka.model import TopicView


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """A pod of a worker. `trouble` is why it does not start, where Kubernetes reports it."""

    name: str
    ready: bool
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectView:
    """Kafka Connect as it answered: its version, and its classes of connectors with their versions."""

    version: str
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectObserved:
    """Kafka Connect of a KafkaCluster.

    `view` is its answer, or `problem` why there is none. `blocked` is why workers may not be changed now. `topics` are the internal topics, None
    while Kafka does not answer. `contents` are the hashes of the objects as they were applied, by kind and name. `replicas` is what the
    StatefulSet declares, None without one, and `uid` is its uid. `secret_due` is set where the certificate is missing, or has to be renewed.
    """

    view: ConnectView | None = None
    problem: KappaError | None = None
    blocked: KappaError | None = None
    topics: Mapping[str, TopicView | None] | None = None
    brokers: int = 1
    contents: Mapping[tuple[str, str], str] = field(default_factory=dict)
    replicas: int | None = None
    uid: str = ""
    pods: tuple[WorkerPod, ...] = ()
    secret_due: bool = False
    options: WorkerOptions | None = None
