"""Each check of the locks finds the download that it is for, and this checkout has none."""

from collections.abc import Callable, Iterator

import pytest

from lab.paths import REPOSITORY
from supply.locks import (
    check_all,
    check_checksums,
    check_constraints,
    check_dockerfile,
    check_go,
    check_requirements,
    check_script,
    check_uv_lock,
)

HASH = "a" * 64
WHEEL = f'{{ url = "x", hash = "sha256:{HASH}" }}'
DOCKERFILE = (REPOSITORY / "pipelines" / "Dockerfile").read_text()


def test_every_download_of_this_checkout_is_locked() -> None:
    assert check_all() == []


def package(**fields: str) -> str:
    lines = "\n".join(f"{name} = {value}" for name, value in fields.items())
    return f'[[package]]\nname = "one"\n{lines}\n'


REGISTRY = '{ registry = "https://example.com/simple" }'


@pytest.mark.parametrize(
    ("check", "text", "problem"),
    [
        (check_uv_lock, package(source=REGISTRY, wheels=f"[{WHEEL}]"), ""),
        (
            check_uv_lock,
            package(source=REGISTRY, wheels=f'[{WHEEL}, {{ url = "y" }}]'),
            "a file without a hash",
        ),
        (check_uv_lock, package(source=REGISTRY), "a file without a hash"),
        (check_uv_lock, package(source='{ git = "https://example.com/one" }'), "which has no hash"),
        (check_requirements, f"uv==1.0 \\\n    --hash=sha256:{HASH}\n", ""),
        (check_requirements, "uv==1.0\n", "uv==1.0 is not locked"),
        (check_requirements, f"uv>=1.0 --hash=sha256:{HASH}\n", "uv>=1.0 is not locked"),
        (check_requirements, "# nothing\n", "no requirement"),
        (check_checksums, f"org:one:1 {HASH}\n", ""),
        (check_checksums, f"org:one:1 {HASH[1:]}\n", "org:one:1"),
        (check_checksums, "", "no file"),
        (check_script, 'run(["pip", "install", "--require-hashes", "-r", "x"])', ""),
        (check_script, 'run(["pip", "install", "uv"])', "pip"),
        (check_script, "bin/pip install --quiet uv", "pip"),
        (check_script, "curl -L https://example.com/tool > tool", "curl"),
        (check_script, "go install example.com/tool@latest", "@latest"),
    ],
)
def test_a_download_without_a_lock_is_found(
    check: Callable[[str], Iterator[str]], text: str, problem: str
) -> None:
    found = list(check(text))
    assert (found == []) if not problem else problem in "; ".join(found)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("@sha256:", "", "the base has no digest"),
        ("FROM ${BASE} AS java", "FROM python:3.11 AS java", "the base has no digest"),
        (" --require-hashes", "", "installs without hashes"),
        ("--frozen ", "", "does not use the lock"),
        ("--no-build-isolation ", "", "installs what is not locked"),
        ("--no-deps ", "", "installs what is not locked"),
        ("RUN ln -s", "RUN curl https://example.com/x | sh && ln -s", "a download without a hash"),
    ],
)
def test_a_dockerfile_that_installs_what_is_not_locked_is_found(
    before: str, after: str, problem: str
) -> None:
    assert before in DOCKERFILE
    assert list(check_dockerfile(DOCKERFILE)) == []
    assert problem in "; ".join(check_dockerfile(DOCKERFILE.replace(before, after)))


def test_a_module_of_go_without_a_hash_is_found() -> None:
    mod = "require (\n\texample.com/one v1.0.0\n\texample.com/two v2.0.0 // indirect\n)\n"
    sums = "example.com/one v1.0.0/go.mod h1:x=\n"
    assert list(check_go(mod, sums)) == ["example.com/two v2.0.0 is not in go.sum"]
    replaced = f"{mod}\nreplace example.com/two => example.com/one v1.0.0\n"
    assert list(check_go(replaced, sums)) == []


def test_a_build_requirement_of_another_version_than_in_the_images_is_found() -> None:
    pyproject = '[tool.uv]\nbuild-constraint-dependencies = ["hatchling==1.0"]\n'
    assert list(check_constraints(pyproject, "hatchling==1.0 \\\n")) == []
    assert list(check_constraints(pyproject, "hatchling==2.0 \\\n")) == [
        "hatchling==1.0 is not in both",
        "hatchling==2.0 is not in both",
    ]
