"""A real HAProxy before real tiny web servers, which die, hang and come back as a test likes."""

from __future__ import annotations

import http.server
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers.process import free_port
from tests.waiting import wait_for

HAVE = shutil.which("haproxy") is not None

# Patient: the web servers share a process with busy tests, and a server that is merely slow must
# not count as one that failed. Where a test is about slowness, its backend says less.
HEAD = """global
    maxconn 200
    stats timeout 60s
    stats socket {socket} mode 600 level admin
    stats socket ipv4@127.0.0.1:{tcp} level operator
defaults
    mode http
    timeout connect 20s
    timeout client 60s
    timeout server 60s
    timeout check 15s
    default-server inter 150ms fall 2 rise 1
frontend stats
    bind 127.0.0.1:{http}
    stats enable
    stats uri /stats
    stats show-legends
    stats auth reader:{password}
"""
PASSWORD = "stats-Pa55"


class Web:
    """A web server that answers 200, or whatever it is told."""

    def __init__(self) -> None:
        owner = self
        self.status = 200
        self.hangs = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_OPTIONS(self) -> None:
                if owner.hangs.is_set():
                    time.sleep(1)
                self.send_response(owner.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_OPTIONS  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    def die(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Proxy:
    """One HAProxy process; `backends` is the end of its configuration."""

    def __init__(self, backends: str, *, socket_to_listen: Path | None = None) -> None:
        # Short: a path of a socket has 108 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="yaffle-lb-"))
        self.socket = socket_to_listen or self.folder / "s"
        self.tcp, self.http = free_port(), free_port()
        self.config = self.folder / "cfg"
        head = HEAD.format(socket=self.socket, tcp=self.tcp, http=self.http, password=PASSWORD)
        self.config.write_text(head + backends)
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "haproxy", "-db", "-f", str(self.config)],
                stdout=log,
                stderr=log,
            )
        until(self._answers, (self.folder / "log").read_text)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self.say("show info"))
        except OSError:
            return False

    def say(self, command: str) -> str:
        """Say something to its socket, and return what it answers."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(str(self.socket))
            sock.sendall(f"{command}\n".encode())
            found = b""
            while chunk := sock.recv(65_536):
                found += chunk
        return found.decode()

    def status(self, pool: str, server: str) -> str:
        """Return the column `status` as anybody would cut it out."""
        return self._cells(pool, server, 17)[0]

    def passes(self, pool: str, *servers: str) -> bool:
        """Whether each has passed a check: before its first one has ended HAProxy calls it UP, too."""
        found = [self._cells(pool, server, 17, 36) for server in servers]
        return all(
            status == "UP" and check.removeprefix("* ") in {"L4OK", "L7OK"}
            for status, check in found
        )

    def _cells(self, pool: str, server: str, *columns: int) -> Sequence[str]:
        for line in self.say(f"show stat {pool} 4 -1").splitlines():
            cells = line.split(",")
            if cells[1:2] == [server]:
                return [cells[column] for column in columns]
        return [""] * len(columns)

    def freeze(self) -> None:
        """Stop it, and wait until each of its threads stands still: a busy machine takes its time."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        until(lambda: all(_state(task) == "T" for task in tasks.iterdir()))

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


def _state(task: Path) -> str:
    """Return the kernel's letter for how a thread is."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def proxied(backends: str) -> Iterator[Proxy]:
    proxy = Proxy(backends)
    try:
        yield proxy
    finally:
        proxy.end()


@contextmanager
def webs(count: int) -> Iterator[Sequence[Web]]:
    with ExitStack() as stack:
        found = [Web() for _ in range(count)]
        for web in found:
            stack.callback(web.die)
        yield found


def until(condition: Callable[[], object], why: Callable[[], object] = str) -> None:
    """Wait for something that happens in another process."""
    wait_for(condition, every_s=0.03, why=why)


def silent_listener() -> socket.socket:
    """Return a listening socket that nobody accepts from."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(8)
    return sock
