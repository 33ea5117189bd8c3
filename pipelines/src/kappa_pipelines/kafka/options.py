"""A Kafka connection as options of Spark and as configuration of librdkafka.

Secrets never become Spark settings or options, which are visible in plans, logs, the user interface and process arguments. Spark's clients
get references that Kafka's DirectoryConfigProvider (KIP-421) resolves inside the client, in the driver and in each executor.
librdkafka gets the values, read when a client is created.
"""

from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.errors import UnavailableError

_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def build_spark_connection(kafka: KafkaConnection) -> dict[str, str]:
    """Return the options, each with the prefix `kafka.`, that connect Spark's consumers and producers."""
    config = {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "security.protocol": kafka.security_protocol,
        **_providers(kafka),
        **_tls(kafka),
        **_sasl(kafka),
    }
    return prefix_options(config)


def prefix_options(config: dict[str, str]) -> dict[str, str]:
    """Return client settings with the prefix of Spark's options."""
    return {f"kafka.{key}": value for key, value in config.items()}


def _providers(kafka: KafkaConnection) -> dict[str, str]:
    folders = [d for d in (kafka.credentials_dir, kafka.client_certificate_dir) if d is not None]
    if not folders:
        return {}
    return {
        "config.providers": "dir",
        "config.providers.dir.class": _PROVIDER,
        "config.providers.dir.param.allowed.paths": ",".join(folders),
    }


def _tls(kafka: KafkaConnection) -> dict[str, str]:
    config: dict[str, str] = {}
    if kafka.ca_file is not None:
        config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka.ca_file}
    if kafka.client_certificate_dir is not None:
        config |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": f"${{dir:{kafka.client_certificate_dir}:tls.crt}}",
            "ssl.keystore.key": f"${{dir:{kafka.client_certificate_dir}:tls.key}}",
        }
    if not kafka.verify_hostname:
        config["ssl.endpoint.identification.algorithm"] = ""
    return config


def _sasl(kafka: KafkaConnection) -> dict[str, str]:
    if kafka.sasl_mechanism is None or kafka.credentials_dir is None:
        return {}
    module = _PLAIN if kafka.sasl_mechanism == "PLAIN" else _SCRAM
    user, password = (f"${{dir:{kafka.credentials_dir}:{key}}}" for key in ("username", "password"))
    return {
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def build_librdkafka_config(kafka: KafkaConnection) -> dict[str, str]:
    """Return confluent-kafka's configuration, with credentials read from their files now."""
    config = {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "security.protocol": kafka.security_protocol,
    }
    if kafka.ca_file is not None:
        config["ssl.ca.location"] = kafka.ca_file
    if kafka.client_certificate_dir is not None:
        config["ssl.certificate.location"] = f"{kafka.client_certificate_dir}/tls.crt"
        config["ssl.key.location"] = f"{kafka.client_certificate_dir}/tls.key"
    if not kafka.verify_hostname:
        config["ssl.endpoint.identification.algorithm"] = "none"
    if kafka.sasl_mechanism is not None and kafka.credentials_dir is not None:
        username, password = read_credentials(kafka.credentials_dir)
        config["sasl.mechanism"] = kafka.sasl_mechanism
        config["sasl.username"], config["sasl.password"] = username, password
    return config


def connect_admin(kafka: KafkaConnection, **more: Any) -> AdminClient:
    """Return a client for administration; `more` is further configuration.

    Hold a reference until all futures are done: they never complete after the client is garbage-collected.
    """
    return AdminClient({**build_librdkafka_config(kafka), "log_level": 0, **more})


def read_credentials(folder: str) -> tuple[str, str]:
    """Return user and password; UnavailableError if a file is missing or the login would misread it.

    Kafka's client inserts the values into a JAAS text before it parses that, and no escape survives. So quotes, backslashes
    and line breaks are rejected with a clear message instead of a failed login.
    """
    values = []
    for key in ("username", "password"):
        try:
            value = (Path(folder) / key).read_text()
        except OSError as error:
            raise UnavailableError(
                Reason.SECRET_INCOMPLETE, f"the Kafka credentials lack {key!r}: {error.strerror} ({folder})"
            ) from error
        if any(character in value for character in '"\\\r\n'):
            raise UnavailableError(
                Reason.SECRET_INCOMPLETE,
                f"the Kafka {key} holds a quote, a backslash or a line break, which Kafka's login cannot process;"
                " choose another, or create the Secret without the line break",
            )
        values.append(value)
    return values[0], values[1]
