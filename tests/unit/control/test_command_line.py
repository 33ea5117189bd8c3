"""The command line as a whole: what it loads, its help and its version."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from kappa_operator.cli.app import COMMANDS, app

HEAVY = "'kubernetes', 'aiohttp', 'aiokafka', 'sqlglot', 'pydantic', 'pyspark', 'rich'"
COUNT = f"""
import sys
from kappa_operator.cli import main
try:
    main()
finally:
    print(*sorted({{{HEAVY}}} & set(sys.modules)), sep=',', file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["validate", "--help"]])
def test_a_command_loads_only_what_it_needs(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stderr.strip().split(",") if name}
    assert loaded <= ({"pydantic"} if arguments[0] == "validate" else set())
    assert done.stdout.strip()


def test_the_help_lists_each_command_with_the_first_sentence_of_its_own_help() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    for name, command in COMMANDS.items():
        assert command.help.removesuffix(".") in " ".join(listed.split())
        if command.is_local:
            continue
        own = " ".join(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output.split())
        assert command.help in own, own


def test_the_version_is_the_one_that_is_installed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, "kappa 0.1.0\n")


def test_a_command_that_is_misspelled_is_answered_with_the_one_that_was_meant() -> None:
    done = CliRunner().invoke(app, ["statsu"])
    assert done.exit_code == 2
    assert "Did you mean 'status'?" in done.output


def test_plan_names_a_file_that_is_not_there_and_shows_no_stack_trace() -> None:
    done = CliRunner().invoke(app, ["plan", "-f", "/nowhere/missing.yaml"])
    assert done.exit_code == 1
    assert "error: /nowhere/missing.yaml: No such file or directory" in done.output
    assert "Traceback" not in done.output
