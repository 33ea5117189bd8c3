"""The start of a worker of Kafka Connect: what is secret gets into one file in memory, in the form that Java reads, and nowhere else."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from lab.paths import REPOSITORY


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("connect_start", REPOSITORY / "connect" / "start.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mount(folder: Path, **files: str) -> Path:
    for name, text in {
        "connect__worker.properties": "sasl.mechanism=PLAIN\n",
        "rest__password": "lock",
    }.items() | files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def read_java(text: str) -> dict[str, str]:
    """Return properties as Java reads them, where each escape is that of a character code."""
    lines = (line.split("=", 1) for line in text.splitlines())
    return {name: re.sub(r"\\u(.{4})", lambda code: chr(int(code[1], 16)), value) for name, value in lines}


def test_without_a_log_in_only_the_stores_of_the_rest_api_are_opened(
    program: ModuleType, tmp_path: Path
) -> None:
    added = program.build_settings(mount(tmp_path), tmp_path, "main-connect-0.main-connect-pods.shop.svc")
    assert added == {
        "rest.advertised.host.name": "main-connect-0.main-connect-pods.shop.svc",
        "listeners.https.ssl.keystore.password": "lock",
        "listeners.https.ssl.truststore.password": "lock",
    }


def test_all_clients_of_a_worker_trust_and_show_a_certificate(program: ModuleType, tmp_path: Path) -> None:
    secrets = mount(tmp_path, kafka__ca__ca="", kafka__client__tls="")
    (secrets / "kafka" / "client" / "tls.key").write_text("KEY\n")
    (secrets / "kafka" / "client" / "tls.crt").write_text("CERTIFICATE\n")
    added = program.build_settings(secrets, tmp_path, "host")
    for client in ("", "producer.", "consumer.", "admin."):
        assert added[f"{client}ssl.truststore.location"] == f"{secrets}/kafka/ca/ca.crt"
        assert added[f"{client}ssl.keystore.location"] == f"{tmp_path}/kafka.pem"
    pair = tmp_path / "kafka.pem"
    assert (pair.read_text(), pair.stat().st_mode & 0o777) == ("KEY\nCERTIFICATE\n", 0o600)


def test_the_log_in_is_a_file_that_the_options_name(program: ModuleType, tmp_path: Path) -> None:
    secrets = mount(tmp_path / "etc", kafka__sasl__username="ann", kafka__sasl__password="hush")
    options = program.write_log_in(secrets, tmp_path)
    assert f"-Djava.security.auth.login.config={tmp_path}/kafka.jaas" in options
    log_in = tmp_path / "kafka.jaas"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert log_in.read_text() == f'KafkaClient {{ {module} required username="ann" password="hush"; }};\n'
    assert log_in.stat().st_mode & 0o777 == 0o600
    assert "hush" not in " ".join(options)


def test_without_a_log_in_no_file_is_named(program: ModuleType, tmp_path: Path) -> None:
    assert program.write_log_in(mount(tmp_path / "etc"), tmp_path) == []


def test_java_replaces_nothing_in_the_log_in(program: ModuleType, tmp_path: Path) -> None:
    secrets = mount(tmp_path / "etc", kafka__sasl__username="ann", kafka__sasl__password="${user.home}")
    options = program.write_log_in(secrets, tmp_path)
    (security,) = [each.partition("=")[2] for each in options if "java.security.properties" in each]
    assert Path(security).read_text() == "policy.expandProperties=false\n"
    assert 'password="${user.home}"' in (tmp_path / "kafka.jaas").read_text()


ESCAPES = {"n": "\n", "r": "\r"}


@pytest.mark.parametrize("password", ["plain", 'a"b\\c', " spaced ", "é€😀", "a=b:c#d!e", "two\r\nlines"])
def test_a_password_arrives_as_it_is(program: ModuleType, password: str) -> None:
    found = re.search(r' password="(.*)"; };$', program.build_log_in("SCRAM-SHA-512", "ann", password))
    assert found is not None
    assert re.sub(r"\\(.)", lambda char: ESCAPES.get(char[1], char[1]), found[1]) == password


@pytest.mark.parametrize("value", ["plain", "a\\b", " spaced ", "é€😀", "a=b:c#d!e"])
def test_a_setting_arrives_as_it_is(program: ModuleType, value: str) -> None:
    stored = program.format_settings({"name": value})
    assert stored.isascii()
    assert read_java(stored)["name"].encode("utf-16", "surrogatepass").decode("utf-16") == value


def test_the_complete_settings_are_readable_by_one_user(program: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("of an earlier start")
    program.write_private(path, "a=b\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("a=b\n", 0o600)


def test_the_command_of_the_worker_has_no_secret(program: ModuleType, tmp_path: Path) -> None:
    command = program.build_command(tmp_path / "worker.properties", ["-Xshare:auto", "-XX:+UseSerialGC"])
    assert command[-1] == f"{tmp_path}/worker.properties"
    assert command[4:6] == ["-Xshare:auto", "-XX:+UseSerialGC"]
