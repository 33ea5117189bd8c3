"""The options that several commands share, so that each has one name, one help and one implementation."""

from pathlib import Path
from typing import Annotated

import typer

from kappa_crds import TEST_SUFFIX
from kappa_crds.quantities import parse_duration
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.output import Output

Namespace = Annotated[
    str,
    typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Namespace. Default: that of the kubeconfig's context.", show_default=False),
]  # fmt: skip
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig. Default: the current one.")
]
OperatorNamespace = Annotated[
    str,
    typer.Option(
        metavar="NAMESPACE", envvar="KAPPA_OPERATOR_NAMESPACE", help="Namespace that the operator runs in."
    ),
]
OutputFormat = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", allow_dash=True, show_default=False,
                   help="Manifest files or folders, or - for standard input."),
]  # fmt: skip
Filename = Annotated[
    list[Path] | None,
    typer.Option("-f", "--filename", metavar="FILE", allow_dash=True, help="The same, as in kubectl."),
]
_MANIFESTS = (".yaml", ".yml", ".json")


def list_files(
    files: list[Path] | None, filename: list[Path] | None, *, with_tests: bool = False
) -> list[str]:
    """Return the manifest files that a command names, those of a folder by name; CommandError without one.

    `with_tests` adds the test files in a folder and in `tests` there. Commands that need no tests do not fail because of one.
    """
    named = [*(files or ()), *(filename or ())]
    if not named:
        raise CommandError("name a manifest: FILE or -f FILE", Exit.USAGE)
    found: list[str] = []
    for path in named:
        inner = _list_folder(path, with_tests) if path.is_dir() else [path]
        if not inner:
            raise CommandError(f"{path}: the folder has no YAML or JSON file", Exit.USAGE)
        found += map(str, inner)
    return found


def _list_folder(folder: Path, with_tests: bool) -> list[Path]:
    manifests = sorted(each for each in folder.iterdir() if each.suffix in _MANIFESTS)
    patterns = (f"*{TEST_SUFFIX}", f"tests/*{TEST_SUFFIX}") if with_tests else ()
    return manifests + [test for pattern in patterns for test in sorted(folder.glob(pattern))]


def parse_duration_option(text: str, option: str) -> float:
    """Return the seconds of a duration option; BadParameter where it is not a duration or not positive."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if seconds <= 0:
        raise typer.BadParameter("must be positive", param_hint=option)
    return seconds
