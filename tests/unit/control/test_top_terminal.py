"""`kappa top` in a real terminal, in front of an API server that passes reports on."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fakes.reports import build_report

PATIENCE = 60.0
PROXY = "/api/v1/namespaces/kappa-system/services/https:kappa-operator:https/proxy/report"
TOKEN = "/api/v1/namespaces/kappa-system/serviceaccounts/kappa-operator-reader/token"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Terminal:
    """The master's side of a terminal in which a program runs."""

    process: asyncio.subprocess.Process
    master: int
    text: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> None:
        """Take what the program has written."""
        try:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # the program has closed its side
            asyncio.get_running_loop().remove_reader(self.master)
        self.changed.set()

    @property
    def screen(self) -> list[str]:
        """Return the lines of the last whole drawing."""
        last = self.text.split("\x1b[H")[-1]
        return [line.rstrip() for line in _CODES.sub("", last).replace("\r", "").split("\n")]

    async def wait_for(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Return the screen once something holds of it."""
        async with asyncio.timeout(PATIENCE):
            while not holds(self.screen):
                self.changed.clear()
                assert self.process.returncode is None, self.text
                await self.changed.wait()
        return self.screen

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self.master, key.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, and tell the program as a terminal does."""
        resize(self.master, columns, lines)
        self.process.send_signal(signal.SIGWINCH)


def resize(number: int, columns: int, lines: int) -> None:
    fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def write_kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(f"""\
apiVersion: v1
kind: Config
current-context: one
contexts: [{{name: one, context: {{cluster: one, user: one}}}}]
clusters: [{{name: one, cluster: {{server: "{server}"}}}}]
users: [{{name: one, user: {{token: none}}}}]
""")
    return path


@asynccontextmanager
async def serve_reports() -> AsyncIterator[str]:
    """Have an API server that answers for the operator; every other time another replica is asked."""
    asked = 0

    async def grant(_: web.Request) -> web.Response:
        return web.json_response({"status": {"token": "for the report"}})

    async def tell(request: web.Request) -> web.Response:
        nonlocal asked
        assert request.headers["Kappa-Token"] == "for the report"
        asked += 1
        if asked % 2:
            return web.Response(text="ask another one", status=421)
        return web.json_response(build_report(datetime.now(UTC)).to_manifest())

    app = web.Application()
    app.add_routes([web.get(PROXY, tell), web.post(TOKEN, grant)])
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with serve_reports() as url:
        master, slave = pty.openpty()
        resize(master, 150, 40)
        left_out = ("COLUMNS", "LINES")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment |= {"KUBECONFIG": str(write_kubeconfig(tmp_path, url)), "TERM": "xterm-256color"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from kappa_operator.cli import main; main()", "top", "-n", "shop"),
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        )  # fmt: skip
        running = Terminal(process, master)
        asyncio.get_running_loop().add_reader(master, running.read)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            asyncio.get_running_loop().remove_reader(master)
            os.close(slave)
            os.close(master)


def find_order(screen: list[str]) -> list[str]:
    return [line.split()[0] for line in screen if line.startswith("shop/") and "sampled" not in line]


async def test_top_sorts_by_keys_follows_the_size_and_leaves_the_terminal_as_it_was(
    terminal: Terminal,
) -> None:
    before = termios.tcgetattr(terminal.master)
    screen = await terminal.wait_for(lambda screen: any("84.2k" in line for line in screen))
    assert "sorted by lag · q quit" in screen[0]
    assert find_order(screen) == ["shop/delays", "shop/copy", "shop/fresh"]

    terminal.press("ss")
    screen = await terminal.wait_for(lambda screen: "sorted by rate" in screen[0] and len(screen) > 10)
    assert find_order(screen) == ["shop/copy", "shop/delays", "shop/fresh"]

    terminal.resize(70, 12)
    screen = await terminal.wait_for(
        lambda screen: len(screen) <= 12 and any("more" in line for line in screen)
    )
    assert max(map(len, screen)) <= 70

    terminal.press("q")
    async with asyncio.timeout(PATIENCE):
        assert await terminal.process.wait() == 0
    assert "\x1b[?1049h" in terminal.text  # a screen of its own, and back
    await terminal_closed(terminal)
    assert termios.tcgetattr(terminal.master)[3] == before[3]


async def terminal_closed(terminal: Terminal) -> None:
    async with asyncio.timeout(PATIENCE):
        while "\x1b[?1049l" not in terminal.text:
            terminal.changed.clear()
            await terminal.changed.wait()


async def run(folder: Path, url: str, *arguments: str) -> tuple[int | None, list[str]]:
    """Run a command in a pipe; return how it ended, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from kappa_operator.cli import main; main()", *arguments, "-n", "shop"),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(write_kubeconfig(folder, url))},
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode, out.decode().splitlines()


async def test_in_a_pipe_all_is_printed_once_in_plain_lines(tmp_path: Path) -> None:
    async with serve_reports() as url:
        top, lag = await asyncio.gather(
            run(tmp_path, url, "top"),
            run(tmp_path, url, "lag", "--fail-over", "60s"),
        )
    assert (top[0], find_order(top[1])) == (0, ["shop/delays", "shop/copy", "shop/fresh"])
    assert (lag[0], lag[1][1].split()[:2]) == (3, ["audit", "orders"])
    assert not any("\x1b" in line or line.endswith(" ") for line in [*top[1], *lag[1]])
