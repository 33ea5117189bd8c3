"""What the probe pod of a state store runs: `python -m kappa_operator.statestore.probe /store`.

It writes a file of 1 MiB, forces it to the disk, reads it back and deletes it. What it found goes as one line of JSON
to the pod's termination message, where the operator reads it. Needs nothing but the standard library.
"""

import errno
import json
import os
import sys
from pathlib import Path

SIZE = 2**20
TERMINATION_LOG = Path("/dev/termination-log")

FULL = "StoreFull"
FAILED = "StoreCheckFailed"


def check(folder: Path) -> dict[str, object]:
    """Return `{"ok": true, "freeBytes": …}`, or the reason and a message."""
    file = folder / f".kappa-check-{os.getpid()}-{os.urandom(4).hex()}"
    content = os.urandom(SIZE)
    try:
        _write(file, content)
        if file.read_bytes() != content:
            return _fail(FAILED, f"{file} does not hold what was written to it just before")
    except OSError as error:
        return explain(error, folder)
    finally:
        file.unlink(missing_ok=True)
    free = os.statvfs(folder)
    return {"ok": True, "freeBytes": free.f_bavail * free.f_frsize}


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def explain(error: OSError, folder: Path) -> dict[str, object]:
    """Return what the error means for a state store, and what to do."""
    name = errno.errorcode.get(error.errno or 0, "OSError")
    text = f"{name}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _fail(FULL, f"the volume has no room for 1 MiB ({text}); raise spec.pvc.size or free space")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _fail(
            FAILED,
            f"uid {os.getuid()} with groups {os.getgroups()} may not write to {folder} ({text}); use a storage"
            " class that honours fsGroup, or make the volume writable for group 1000",
        )
    return _fail(FAILED, f"the volume cannot be written and read: {text}")


def _fail(reason: str, message: str) -> dict[str, object]:
    return {"ok": False, "reason": reason, "message": message}


def main(arguments: list[str]) -> int:
    """Check the folder and leave the result as the termination message."""
    result = check(Path(arguments[0]))
    text = json.dumps(result)
    print(text)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(text)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
