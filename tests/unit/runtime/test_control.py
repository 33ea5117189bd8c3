"""Who may ask a driver what."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message

from kappa_crds.comparison import ComparisonRequest, OutputRange
from kappa_crds.progress import DriverRole, DriverState, InputVector, Progress
from kappa_pipelines.reporting.control import Control


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    text: str


class Doors:
    """A control server without a driver."""

    def __init__(
        self,
        token_file: Path,
        state: DriverState = DriverState.RUNNING,
        host: str = "10.0.0.9",
        *,
        has_certificate: bool = False,
        has_batches: bool = True,
    ) -> None:
        self.steered: list[object] = []
        self.stops = 0
        self.activations = 0
        self.savepoints: list[tuple[str, str]] = []
        self._is_running = state is DriverState.RUNNING
        self._stands_by = state is DriverState.STANDING_BY
        progress = Progress(
            namespace="n",
            pipeline="p",
            revision="r",
            generation=1,
            state=state,
            started_at=datetime(2013, 1, 1, tzinfo=UTC),
        )
        control = Control(
            snapshot=lambda: progress,
            is_alive=lambda: state is not DriverState.FAILED,
            stop=self._stop,
            activate=self._activate,
            registry=CollectorRegistry(),
            take_savepoint=self._take,
            hold=self._hold,
            advance=self._advance,
            compare=self._compare,
            resume=lambda: self.steered.append("continue"),
            set_role=self.steered.append,
            token_file=token_file,
            has_certificate=has_certificate,
            has_batches=has_batches,
        )
        self.app = control.app()
        self._host = host

    def ask(
        self,
        path: str,
        authorization: str | None = None,
        method: str = "GET",
        scheme: str = "http",
        body: bytes = b"",
    ) -> Answer:
        headers = [(b"authorization", authorization.encode())] if authorization is not None else []
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": scheme,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "client": (self._host, 1),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        return Answer(sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:]).decode())

    def _stop(self) -> None:
        self.stops += 1

    def _activate(self) -> bool:
        self.activations += self._stands_by
        return self._stands_by

    def _hold(self, seconds: float) -> bool:
        self.steered += [seconds] if self._is_running else []
        return self._is_running

    def _advance(self, target: InputVector) -> bool:
        self.steered.append(target)
        return target.offsets != {}

    def _compare(self, request: ComparisonRequest) -> bool:
        self.steered += [request] if self._is_running else []
        return self._is_running

    def _take(self, name: str, location: str) -> bool:
        self.savepoints += [(name, location)] if self._is_running else []
        return self._is_running


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("right\n")
    return tmp_path / "token"


def test_probes_and_metrics_are_open(token: Path) -> None:
    doors = Doors(token)
    assert [doors.ask(path).status for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "right"])
def test_progress_and_stop_need_the_token(token: Path, header: str | None) -> None:
    doors = Doors(token)
    assert doors.ask("/progress", header).status == 401
    assert doors.ask("/stop", header, method="POST").status == 401
    assert doors.stops == 0


def test_with_the_token_progress_is_read_and_a_stop_is_taken(token: Path) -> None:
    doors = Doors(token)
    assert Progress.model_validate_json(doors.ask("/progress", "Bearer right").text).pipeline == "p"
    assert doors.ask("/stop", "Bearer right", method="POST").status == 202
    assert doors.stops == 1


def test_a_stop_is_not_taken_from_a_get(token: Path) -> None:
    doors = Doors(token)
    assert doors.ask("/stop", "Bearer right").status == 405
    assert doors.stops == 0


ONE = "/savepoints/one-1?location=file%3A%2F%2F%2Fs"


def test_a_standby_driver_takes_over_when_activated_with_the_token(token: Path) -> None:
    doors = Doors(token, DriverState.STANDING_BY)
    assert doors.ask("/activate", "Bearer wrong", method="POST").status == 401
    assert doors.ask("/activate", "Bearer right").status == 405
    assert doors.activations == 0
    assert doors.ask("/activate", "Bearer right", method="POST").status == 202
    assert doors.activations == 1
    rehearsing = Doors(token, DriverState.DRY_RUN)
    assert rehearsing.ask("/activate", "Bearer right", method="POST").status == 409


def test_a_savepoint_is_requested_with_the_token_while_the_queries_run(token: Path) -> None:
    doors = Doors(token)
    assert doors.ask(ONE, "Bearer wrong", method="POST").status == 401
    assert doors.ask(ONE, "Bearer right").status == 405
    assert doors.ask(ONE, "Bearer right", method="POST").status == 202
    assert doors.savepoints == [("one-1", "file:///s")]
    starting = Doors(token, DriverState.STARTING)
    assert starting.ask(ONE, "Bearer right", method="POST").status == 409


@pytest.mark.parametrize(
    "path", ["/savepoints/one", "/savepoints/..?location=file:///s", "/savepoints/A?location=s"]
)
def test_a_savepoint_without_a_proper_name_and_place_is_refused(token: Path, path: str) -> None:
    doors = Doors(token)
    assert doors.ask(path, "Bearer right", method="POST").status == 400
    assert doors.savepoints == []


def test_an_empty_token_file_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert Doors(tmp_path / "token").ask("/progress", "Bearer ").status == 401


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("::1", 200), ("10.0.0.9", 403)])
def test_without_a_token_file_only_the_loopback_may_ask(tmp_path: Path, host: str, status: int) -> None:
    assert Doors(tmp_path / "none", host=host).ask("/progress").status == status


@pytest.mark.parametrize(
    ("state", "health", "ready"),
    [(DriverState.STARTING, 200, 503), (DriverState.RUNNING, 200, 200), (DriverState.FAILED, 503, 503)],
)
def test_health_and_readiness_follow_the_state(
    token: Path, state: DriverState, health: int, ready: int
) -> None:
    doors = Doors(token, state)
    assert (doors.ask("/healthz").status, doors.ask("/readyz").status) == (health, ready)


CUT = InputVector(offsets={"flights": {0: 5}}, idle={"flights": 7})


def test_a_driver_is_steered_with_the_token_only(token: Path) -> None:
    doors = Doors(token)
    for path in ("/hold?seconds=9", "/advance", "/comparisons", "/continue", "/role?role=shadow"):
        assert (
            doors.ask(path, "Bearer wrong", method="POST", body=CUT.model_dump_json().encode()).status == 401
        )
        assert doors.ask(path, "Bearer right").status == 405
    assert doors.steered == []
    for path in ("/hold?seconds=9", "/advance", "/continue", "/role?role=shadow"):
        assert (
            doors.ask(path, "Bearer right", method="POST", body=CUT.model_dump_json().encode()).status == 202
        )
    assert doors.steered == [9.0, CUT, "continue", DriverRole.SHADOW]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/hold", b""),
        ("/hold?seconds=0", b""),
        ("/hold?seconds=nan", b""),
        ("/hold?seconds=1e9", b""),
        ("/hold?seconds=soon", b""),
        ("/advance", b""),
        ("/advance", b'{"offsets": {"flights": {"first": 1}}}'),
        ("/advance", b'{"offsets": {}}' + b" " * 2**20),
        ("/comparisons", b'{"name": "a b"}'),
        ("/role", b""),
        ("/role?role=standby", b""),
    ],
)
def test_a_request_that_means_nothing_is_refused_for_good(token: Path, path: str, body: bytes) -> None:
    doors = Doors(token)
    assert doors.ask(path, "Bearer right", method="POST", body=body).status == 400
    assert doors.steered == []


def test_a_driver_compares_outputs_while_its_queries_run(token: Path) -> None:
    part = OutputRange(topic="out", start={0: 0}, end={0: 7})
    request = ComparisonRequest(name="out-1", old=part, new=part.replace(topic="out.r2"))
    body = request.model_dump_json(by_alias=True).encode()
    assert (
        Doors(token, DriverState.STARTING)
        .ask("/comparisons", "Bearer right", method="POST", body=body)
        .status
        == 409
    )
    doors = Doors(token)
    assert doors.ask("/comparisons", "Bearer right", method="POST", body=body).status == 202
    assert doors.steered == [request]


def test_a_driver_holds_while_its_queries_run_and_advances_while_it_holds(token: Path) -> None:
    starting = Doors(token, DriverState.STARTING)
    assert starting.ask("/hold?seconds=9", "Bearer right", method="POST").status == 409
    assert Doors(token).ask("/advance", "Bearer right", method="POST", body=b"{}").status == 409
    endless = Doors(token, has_batches=False).ask("/hold?seconds=9", "Bearer right", method="POST")
    assert (endless.status, "real-time" in endless.text) == (400, True)
