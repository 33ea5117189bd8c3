"""The command line as a whole: what it loads, its help and its version."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import yaml
from typer.testing import CliRunner, Result

from integration.manifests import read_smallest
from kappa_operator.cli.app import COMMANDS, app, load
from lab.paths import BIN

HEAVY = "'kubernetes', 'aiohttp', 'aiokafka', 'sqlglot', 'pydantic', 'pyspark', 'rich'"
COUNT = f"""
import sys
from kappa_operator.cli import main
try:
    main()
finally:
    print(*sorted({{{HEAVY}}} & set(sys.modules)), sep=',', file=sys.stderr)
"""


def run(*arguments: str, kubeconfig: Path = Path("/nowhere")) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"KUBECONFIG": str(kubeconfig)})


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["validate", "--help"]])
def test_a_command_loads_only_what_it_needs(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stderr.strip().split(",") if name}
    assert loaded <= ({"pydantic"} if arguments[0] == "validate" else set())
    assert done.stdout.strip()


@pytest.mark.parametrize("group", ["savepoint", "cdc", "reprocess"])
def test_the_help_of_a_group_lists_each_command_with_its_first_sentence(group: str) -> None:
    listed = CliRunner().invoke(app, [group, "--help"], env={"COLUMNS": "80"}).output
    commands = listed.partition("Commands:")[2]
    assert commands.count("\n") > 4
    assert "..." not in commands
    assert " ".join(commands.split()).count(".") >= len(load(group).commands)


def test_the_help_lists_each_command_with_the_first_sentence_of_its_own_help() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    for name, command in COMMANDS.items():
        assert command.help.removesuffix(".") in " ".join(listed.split())
        own = " ".join(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output.split())
        assert command.help.split(". ")[0] in own, own


def test_the_version_is_the_one_that_is_installed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, "kappa 0.1.0\n")


def test_a_command_that_is_misspelled_is_answered_with_the_one_that_was_meant() -> None:
    done = CliRunner().invoke(app, ["statsu"])
    assert done.exit_code == 2
    assert "Did you mean 'status'?" in done.output


@pytest.mark.parametrize("command", ["plan", "validate", "explain", "test"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "{file}: No such file or directory"),
        (b"\xff\xfe", "{file}: not UTF-8 text"),
        (b"kind: [", "{file}: not YAML, line 1, column 8"),
        (b"kind: Pipline\napiVersion: kappa-platform.io/v1alpha1\nmetadata: {name: a}", "did you mean 'Pipeline'"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_line_with_the_reason(
    command: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "some.yaml"
    if content is not None:
        file.write_bytes(content)
    done = run(command, str(file))
    assert done.exit_code == 2
    assert message.format(file=file) in done.stderr
    assert (len(done.stderr.splitlines()), done.stderr[:7]) == (1, "error: ")


CONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts:
  - {name: one, context: {cluster: c, user: u, namespace: shop}}
  - {name: two, context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "SERVER"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no Kubernetes cluster is configured"),
        (b"\xff", "the kubeconfig cannot be used"),
        (b"a: [", "the kubeconfig cannot be used"),
        (b"[1]", "the kubeconfig cannot be used"),
        (CONFIG.replace("one, context", "1, context").encode(), "no Kubernetes cluster is configured"),
        (CONFIG.replace("SERVER", "http://127.0.0.1:1").encode(), "the API server at http://127.0.0.1:1 did not respond"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["status", "lag", "top", "savepoint list", "savepoint create a"])
def test_an_unusable_kubeconfig_is_one_line_with_the_reason(
    command: str, config: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    if config is not None:
        file.write_bytes(config)
    done = run(*command.split(), kubeconfig=file)
    assert (done.exit_code, message in done.stderr) == (1, True), done.output
    assert len(done.stderr.splitlines()) == 1


class Paths(BaseHTTPRequestHandler):
    """Remembers what is requested, and has nothing but its items."""

    requested: ClassVar[list[str]] = []
    items: ClassVar[list[Any]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path.partition("?")[0])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": self.items, "metadata": {}}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Paths)
    Paths.requested.clear()
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "config").write_text(CONFIG.replace("SERVER", f"http://127.0.0.1:{server.server_port}"))
    yield tmp_path / "config"
    server.shutdown()


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ([], "namespaces/shop/"),
        (["--context", "two"], "namespaces/default/"),
        (["-n", "other"], "namespaces/other/"),
        (["-A"], ""),
    ],
)
@pytest.mark.parametrize(("command", "kind"), [("savepoint list", "savepoints"), ("status", "topics")])
def test_the_namespace_is_that_of_the_context_unless_another_is_named(
    command: str, kind: str, options: list[str], place: str, config: Path
) -> None:
    run(*command.split(), *options, kubeconfig=config)
    assert f"/apis/kappa-platform.io/v1alpha1/{place}{kind}" in Paths.requested


def test_a_resource_with_fields_of_a_later_release_is_one_line_with_the_fix(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = {**read_smallest("Savepoint"), "spec": {"pipelineRef": "delays", "color": "red", "size": 1}}
    monkeypatch.setattr(Paths, "items", [later])
    done = run("savepoint", "list", kubeconfig=config)
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1), done.output
    for part in (
        "error: ",
        "spec.color: Extra inputs are not permitted; spec.size",
        "use the version of the operator",
    ):
        assert part in done.stderr


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
def test_each_output_format_works_for_each_command_that_lists(output: str, config: Path) -> None:
    for command in ("savepoint list", "status", "lag", "top"):
        done = run(*command.split(), "-o", output, kubeconfig=config)
        assert done.exit_code in (0, 3), done.output
        assert "Traceback" not in done.output
        if output in ("json", "yaml"):
            assert yaml.load(done.stdout, yaml.CSafeLoader) is not None


def test_a_folder_is_read_as_its_manifests(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "c.txt"):
        (tmp_path / name).write_text(json.dumps(read_smallest("Topic")))
    done = run("validate", str(tmp_path), "-o", "name")
    assert done.stdout.splitlines() == [f"topic/{read_smallest('Topic')['metadata']['name']}"] * 2


def test_as_a_plugin_of_kubectl_the_help_names_the_plugin(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("kubectl-kappa")
    command = [str(program), "savepoint", "list", "--help"]
    if (BIN / "kubectl").exists():
        command = [str(BIN / "kubectl"), "kappa", *command[1:]]
    path = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=path)
    assert done.stdout.startswith("Usage: kubectl kappa savepoint list [OPTIONS]")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    program = Path(sys.executable).with_name("kappa")
    wanted = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [str(program), "--show-completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=wanted)
    assert "_KAPPA_COMPLETE" in done.stdout


def test_commands_and_options_are_completed() -> None:
    program = Path(sys.executable).with_name("kappa")
    for words, expected in (
        ("kappa sta", "status"),
        ("kappa savepoint ver", "verify"),
        ("kappa lag --fail", "--fail-over"),
    ):
        wanted = {
            "_KAPPA_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        done = subprocess.run(
            [str(program)], capture_output=True, text=True, check=False, env={**os.environ, **wanted}
        )
        assert expected in done.stdout.split(), done
