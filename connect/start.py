"""The start of a worker of Kafka Connect: adds what is secret to the settings of the operator, and becomes the worker.

Settings are in a ConfigMap, secrets in mounted Secrets. The complete settings are in a file in memory that only this user can read.
No secret is in a variable, in arguments or in the log; and connectors can refer to no secret but those of the provider `sources`.

The log-in to Kafka is a file of the JVM (JAAS), which all of its Kafka clients use. So the clients that connectors of MySQL and MariaDB
have for the history of schemas log in, and no configuration of a connector names the password.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

HOST_VARIABLE = "KAPPA_ADVERTISED_HOST"
CLIENTS = ("", "producer.", "consumer.", "admin.")
"""Prefixes of the settings of Kafka clients: the worker's own, and those of tasks."""
_LOGINS = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}
_SETTINGS, _COMPLETE, _KAFKA_PAIR = "connect/worker.properties", "worker.properties", "kafka.pem"
_LOG_IN, _JAVA_SECURITY = "kafka.jaas", "java.security"
HOME = Path("/opt/connect")


def build_settings(secrets: Path, scratch: Path, host: str) -> dict[str, str]:
    """Return what is added to the settings in `secrets`, the folder of all mounts; a key pair of Kafka is written to `scratch`."""
    password = (secrets / "rest" / "password").read_text().strip()
    added = {"rest.advertised.host.name": host}
    for store in ("keystore", "truststore"):
        added[f"listeners.https.ssl.{store}.password"] = password
    for name, value in _build_kafka(secrets / "kafka", scratch):
        added.update({f"{client}{name}": value for client in CLIENTS})
    return added


def _build_kafka(folder: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    if (folder / "ca").is_dir():
        yield from (
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", str(folder / "ca" / "ca.crt")),
        )
    if (folder / "client").is_dir():
        key, certificate = ((folder / "client" / name).read_text() for name in ("tls.key", "tls.crt"))
        pair = scratch / _KAFKA_PAIR
        write_private(pair, f"{key.strip()}\n{certificate.strip()}\n")
        yield from (("ssl.keystore.type", "PEM"), ("ssl.keystore.location", str(pair)))


def write_log_in(secrets: Path, scratch: Path) -> list[str]:
    """Write the log-in to Kafka as a file of the JVM, if there is one; return the options that name it.

    Java would replace `${…}` in a password by a property, so that is switched off.
    """
    folder = secrets / "kafka" / "sasl"
    if not folder.is_dir():
        return []
    user, password = ((folder / name).read_text() for name in ("username", "password"))
    mechanism = dict(read_settings((secrets / _SETTINGS).read_text()))["sasl.mechanism"]
    write_private(scratch / _LOG_IN, build_log_in(mechanism, user, password))
    write_private(scratch / _JAVA_SECURITY, "policy.expandProperties=false\n")
    files = {
        "java.security.auth.login.config": scratch / _LOG_IN,
        "java.security.properties": scratch / _JAVA_SECURITY,
    }
    return [f"-D{name}={path}" for name, path in files.items()]


def build_log_in(mechanism: str, user: str, password: str) -> str:
    """Return the file of a log-in by user and password, with the name under which Kafka's clients look for it."""
    module = f"org.apache.kafka.common.security.{_LOGINS[mechanism.partition('-')[0]]}"
    return f"KafkaClient {{ {module} required username={quote(user)} password={quote(password)}; }};\n"


def quote(text: str) -> str:
    """Return a text between quotation marks, as the parser of log-ins reads it."""
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return f'"{text}"'


def read_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the operator, which have one line each and no escapes."""
    for line in text.splitlines():
        name, found, value = line.partition("=")
        if found:
            yield name, value


def format_settings(settings: Mapping[str, str]) -> str:
    """Return settings as Java's properties."""
    return "".join(f"{name}={_escape(value)}\n" for name, value in settings.items())


def _escape(value: str) -> str:
    """Return a value of a properties file, in ASCII; a first space would be lost."""
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 < code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes)


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read."""
    path.unlink(missing_ok=True)
    path.touch(0o600, exist_ok=False)
    path.write_text(text)


def build_command(settings: Path, options: Iterable[str]) -> list[str]:
    """Return the command of the worker. It ends when its memory is used up, as it would answer and do nothing."""
    return [
        *("java", "-XX:MaxRAMPercentage=60", "-XX:+ExitOnOutOfMemoryError", "-Djava.io.tmpdir=/tmp"),
        *options,
        f"-javaagent:{HOME}/agent.jar=8080:{HOME}/connect-jmx.yaml",
        f"-Dlog4j2.configurationFile={HOME}/log4j2.properties",
        *("-cp", f"{HOME}/libs/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)),
    ]


def main(secrets: Path, scratch: Path) -> None:
    """Write the complete settings, and become the worker."""
    added = build_settings(secrets, scratch, os.environ[HOST_VARIABLE])
    complete = scratch / _COMPLETE
    write_private(complete, (secrets / _SETTINGS).read_text() + "\n" + format_settings(added))
    options = [*os.environ.get("KAPPA_JAVA_OPTIONS", "").split(), *write_log_in(secrets, scratch)]
    command = build_command(complete, options)
    os.execvp(command[0], command)  # noqa: S606 - a fixed program, without a shell


if __name__ == "__main__":
    main(Path("/etc/kappa"), Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp"))  # noqa: S108 - memory of this pod
