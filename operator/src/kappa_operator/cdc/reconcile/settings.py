"""The settings of Kafka's client in a file of properties, so that no password is among the arguments of a process."""

_NAMES = frozenset({
    "client.id", "security.protocol",
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password", "ssl.key.pem",
    "ssl.keystore.location", "ssl.keystore.password",
    "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.extensions", "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url",
})  # fmt: skip
"""Settings of a connection, by librdkafka's names. Others could load libraries, or change what is read."""


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings of lines `NAME=VALUE`; `#` begins a comment. Raise ValueError, without any value in its message."""
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"line {number} is not NAME=VALUE")
        if name not in _NAMES:
            raise ValueError(
                f"line {number}: {name[:64]!r} is no setting of a connection by the names of librdkafka"
            )
        found[name] = value.strip()
    return found
