"""What a run says and when it ends: topics that are followed, and workers that talk too much."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kappa_pipelines.laptop.session import pass_on
from laptop.commands import kappa
from laptop.test_commands import CLOSED, FLIGHTS, PIPELINE
from spark.conftest import wait_for
from spark.topics import Topics


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.chaos)])
def test_it_follows_topics_until_a_stop_request(
    number: signal.Signals,
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {name: topics.make(name) for name in ("first", "second")}
    text = CLOSED.replace("topic: first", f"topic: {names['first']}")
    (tmp_path / "closed.yaml").write_text(text.replace("topic: second", f"topic: {names['second']}"))
    said = Said(capsys)

    def feed() -> None:
        topics.write(names["first"], ['{"k": "x", "at": "2026-01-01T08:00:00Z"}'])
        topics.write(names["second"], ["x,2026-01-01T08:30:00Z"])
        said.wait_for('"later": "2026-01-01T08:30')
        topics.write(names["second"], ["x,2026-01-01T08:45:00Z"])
        said.wait_for('"later": "2026-01-01T08:45')

    def feed_and_stop() -> None:
        try:
            feed()
        finally:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=feed_and_stop)
    arguments = ["-f", str(tmp_path / "closed.yaml"), "--local", "--data", f"kafka://{topics.bootstrap}"]
    before = signal.getsignal(number)
    thread.start()
    assert kappa("run", [*arguments, "--follow"]) == 0
    thread.join()
    assert '"later": "2026-01-01T08:45' in said.out
    assert said.err.endswith("stopping …\nsink out: 0 rows\nsink pairs: 2 rows\n")
    told = [line.split("]")[1] for line in said.err.splitlines() if "batch" in line]
    assert len(told) == len(set(told)), "each batch is told once"
    assert not spark.streams.active
    assert signal.getsignal(number) == before


class Said:
    """What a command has said so far, read while it runs."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._out = self._err = ""

    def _read(self) -> None:
        out, err = self._capsys.readouterr()
        self._out, self._err = self._out + out, self._err + err

    @property
    def out(self) -> str:
        self._read()
        return self._out

    @property
    def err(self) -> str:
        self._read()
        return self._err

    def wait_for(self, words: str) -> None:
        wait_for(words, lambda: words in self.out)


def test_a_folder_cannot_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("run", ["-f", PIPELINE, "--local", "--data", str(tmp_path), "--follow"]) == 2
    assert "a folder has an end" in capsys.readouterr().err


@pytest.mark.chaos
def test_an_error_in_the_rules_is_reported_without_worker_noise() -> None:
    folder = FLIGHTS.parent / "auction-commands"
    kappa = str(Path(sys.executable).parent / "kappa")
    files = ["-f", str(folder / "pipeline.yaml"), "-f", str(folder / "tests" / "rules.kappatest")]
    done = subprocess.run(
        [kappa, "test", *files, "-k", "with its line"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 passed"
    assert "starting Spark" in done.stderr
    assert "Python worker" not in done.stderr


def test_only_progress_messages_of_workers_are_left_out() -> None:
    worker = b"Streaming TransformWithStateInPandas Python worker"
    lines = [
        b"WARN a\n",
        b"Starting %s.\n" % worker,
        b"\n",
        b"%s finish init.\n" % worker,
        b"\n",
        b"Traceback\n",
        b"\n",
    ]
    assert list(pass_on(lines)) == [b"WARN a\n", b"Traceback\n", b"\n"]
