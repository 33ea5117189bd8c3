"""Compiles the text of .proto files with protoc from the package grpcio-tools.

A registry may have a schema as its descriptor in base64, as some serializers register it; that is used without compilation.
protoc runs in a separate process: it writes errors to standard error only, and a crash of protoc must not end the driver. Only
drivers and commands compile; executors get descriptors as bytes.
"""

import base64
import binascii
import importlib.resources
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.protobuf.schema import MAIN_FILE
from kappa_pipelines.registry.subject import Reference

_TIMEOUT_SECONDS = 60.0
_KNOWN = {
    "google/protobuf/any.proto": ("grpc_tools", "_proto/google/protobuf/any.proto"),
    "google/type/date.proto": ("google.type", "date.proto"),
    "confluent/meta.proto": ("kappa_pipelines.protobuf", "known/confluent/meta.proto"),
}
"""One file of each collection that every schema may import, and its location: a package, and a path in it."""
_MAX_ERRORS = 5
_ERROR = re.compile(r"(?P<file>\S+[.]proto):((?P<line>\d+):(?P<column>\d+):)? (?P<text>.*)")


def compile_text(where: str, text: str, references: tuple[Reference, ...] = ()) -> bytes:
    """Return the descriptors of a .proto file and of all that it imports, as a serialized FileDescriptorSet.

    `references` are files that it may import besides google/protobuf, google/type and confluent.
    SpecError names the line.
    """
    try:
        return _compile(text, references)
    except ValueError as error:
        raise SpecError(
            Reason.INVALID_SCHEMA, f"{where}: the Protobuf schema cannot be used: {error}"
        ) from error


@lru_cache(maxsize=256)
def _compile(text: str, references: tuple[Reference, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="kappa-proto-") as made:
        folder = Path(made)
        given = FileDescriptorSet()
        for reference in (*references, Reference(MAIN_FILE, text)):
            path = folder / _check_path(reference.name)
            descriptor = read_descriptor(reference.text)
            if descriptor is not None:
                descriptor.name = reference.name
                given.file.append(descriptor)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(reference.text)
        return _run_protoc(folder, given)


def read_descriptor(text: str) -> FileDescriptorProto | None:
    """Return the descriptor in a base64 text, or None for the text of a .proto file."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, DecodeError):
        return None


def _check_path(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.endswith(".proto"):
        raise ValueError(
            f"it refers to {name!r}, which is not the path of a .proto file below the schema's own folder"
        )
    return path


def _run_protoc(folder: Path, given: FileDescriptorSet) -> bytes:
    out = folder / "descriptors"
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "--proto_path=."]
    command += [f"--proto_path={path}" for path in _find_known()]
    if given.file:
        (folder / "given").write_bytes(given.SerializeToString())
        command.append("--descriptor_set_in=given")
    command += ["--include_imports", f"--descriptor_set_out={out}", MAIN_FILE]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, cwd=folder, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"it was not compiled within {_TIMEOUT_SECONDS:.0f} s") from error
    if ended.returncode != 0:
        errors = "; ".join(islice(_find_errors(ended.stderr), _MAX_ERRORS))
        raise ValueError(errors or f"protoc ended with {ended.returncode}")
    return out.read_bytes()


def _find_known() -> Iterator[Path]:
    """Yield the folders of the files that every schema may import."""
    for name, (package, path) in _KNOWN.items():
        found = importlib.resources.files(package).joinpath(*path.split("/"))
        yield Path(str(found)).parents[name.count("/")]


def _find_errors(output: str) -> Iterator[str]:
    for line in output.splitlines():
        found = _ERROR.fullmatch(line.strip())
        if found is None or "warning:" in line:
            continue
        file = "" if found["file"] == MAIN_FILE else f"{found['file']}: "
        place = f"line {found['line']}, column {found['column']}: " if found["line"] else ""
        yield file + place + found["text"]
