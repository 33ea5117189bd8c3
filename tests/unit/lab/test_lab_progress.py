"""The lab shows what a long step does, at least every ten seconds."""

import time
from pathlib import Path

import pytest

from lab import progress
from lab.buildah import find_instruction
from lab.toolchain import count_modules, count_packages


def test_a_long_step_shows_what_it_does_and_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.02)
    shown, deadline = "", time.monotonic() + 10
    with progress.step("tools", done="compiled", detail=lambda: "1 of 2"), progress.step("packages"):
        while shown.count("packages: running (0 s)") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            shown += capsys.readouterr().err
    between = shown[shown.index("packages: running") : shown.rindex("packages: running")]
    assert "tools: 1 of 2" not in between, "only the innermost step is shown"
    assert capsys.readouterr().err.splitlines()[-1].endswith("tools: compiled")


def test_a_short_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("node"):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("node: ready")


def test_a_failed_step_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress.step("node"):
        raise ZeroDivisionError
    assert capsys.readouterr().err.splitlines()[-1].endswith("node: FAILED")


def test_compiling_counts_packages_of_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert count_modules(log) == "resolving modules"
    assert count_packages(log, 3) == "0 of 3 packages compiled"
    log.write_text("go: downloading k8s.io/api v0.34.4\ngo: downloading go.etcd.io/raft v3\n")
    assert count_modules(log) == "downloading module 2: go.etcd.io/raft"
    log.write_text("internal/abi\nruntime\n")
    assert count_packages(log, 4) == "2 of 4 packages compiled, now runtime"
    assert count_packages(log, 3) == "2 of 3 packages compiled, linking"


def test_building_an_image_shows_its_instruction(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert find_instruction(log) == "starting"
    log.write_text("STEP 1/12: FROM base\nwarning\nSTEP 2/12: COPY crds /src/crds\n")
    assert find_instruction(log) == "2 of 12: COPY crds /src/crds"
    log.write_text(f"[1/3] STEP 3/3: FROM base\n[2/3] STEP 1/2: RUN {'x' * 80}\n-> Using cache\n")
    assert find_instruction(log) == f"stage 2 of 3, 1 of 2: RUN {'x' * 56}…"
