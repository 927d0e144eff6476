"""A private RabbitMQ, with an epmd of its own: Erlang's default one would be shared with others."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.process import Process, free_port

USER, PASSWORD = "lab", "very-secret-password"
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
EPMD_S = 10.0


def program() -> Path | None:
    """Return the server's program, None where there is none."""
    return SERVER if SERVER.exists() and shutil.which("epmd") else None


class RabbitMQ(Process):
    """`url` names it; with `tls` (ca, certificate, key) it listens with TLS, and only so."""

    account = "rabbitmq"
    kind = "rabbitmq"

    def __init__(self, *, tls: tuple[Path, Path, Path] | None = None) -> None:
        super().__init__()
        self._tls = tls is not None
        self._ports = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        for name in ("home", "data", "logs"):
            self._own(self.folder / name, folder=True)
        self._write("rabbitmq.conf", "\n".join(self._settings(tls)) + "\n")
        self._write("plugins", "[].\n")

    def _settings(self, tls: tuple[Path, Path, Path] | None) -> Sequence[str]:
        common = [
            f"default_user = {USER}",
            f"default_pass = {PASSWORD}",
            "log.console = false",
            "vm_memory_high_watermark.absolute = 512MB",
            "disk_free_limit.absolute = 50MB",
        ]
        if tls is None:
            return [f"listeners.tcp.default = 127.0.0.1:{self.port}", *common]
        copies = []
        for path in tls:
            self._write(path.name, path.read_text())
            copies.append(self.folder / path.name)
        ca, certificate, key = copies
        return [
            "listeners.tcp = none",
            f"listeners.ssl.default = 127.0.0.1:{self.port}",
            f"ssl_options.cacertfile = {ca}",
            f"ssl_options.certfile = {certificate}",
            f"ssl_options.keyfile = {key}",
            "ssl_options.verify = verify_none",
            *common,
        ]

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self._own(self.folder / name)

    def _own(self, path: Path, *, folder: bool = False) -> None:
        if folder:
            path.mkdir()
        if self._other:
            shutil.chown(path, self.account, self.account)

    def environment(self) -> Mapping[str, str]:
        """Return all that it is told; nothing is taken from the machine's own configuration."""
        epmd, dist = self._ports
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder / "home"),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"yaffle{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "gen"),
            # One scheduler that does not spin: a test machine has others to serve.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}"
            " +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
            # The virtual machine in place of the script, so that it ends with us.
            "detached": "1",
        }

    def command(self) -> Sequence[str]:
        """As `Process.command`."""
        told = [f"{name}={value}" for name, value in self.environment().items()]
        return ["env", "-i", *told, str(SERVER)]

    def start(self) -> None:
        """As `Process.start`, after its epmd."""
        if self._epmd is None:
            told = [f"{k}={v}" for k, v in self.environment().items()]
            self._epmd = subprocess.Popen(
                self.as_owner(["env", "-i", *told, "epmd"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
            until = time.monotonic() + EPMD_S
            while not _listens(self._ports[0]) and time.monotonic() < until:
                time.sleep(0.05)
        super().start()

    def stop(self) -> None:
        """As `Process.stop`; SIGINT means nothing to it."""
        self._end(signal.SIGTERM)

    def remove(self) -> None:
        """As `Process.remove`, its epmd included."""
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None
        super().remove()

    def answers(self) -> bool:
        """Say whether it greets a client; it listens before it is ready for one."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain:
                if self._tls:
                    context = ssl.create_default_context()
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                    with context.wrap_socket(plain) as sock:
                        return _greeted(sock)
                return _greeted(plain)
        except OSError:
            return False

    @property
    def url(self) -> str:
        """Return the URL with its user's name and password."""
        return f"{'amqps' if self._tls else 'amqp'}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"

    def ctl(self, *command: str) -> str:
        """Run `rabbitmqctl`; return what it says."""
        told = [f"{name}={value}" for name, value in self.environment().items()]
        tool = SERVER.with_name("rabbitmqctl")
        done = subprocess.run(
            self.as_owner(["env", "-i", *told, str(tool), "-q", *command]),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def _greeted(sock: socket.socket) -> bool:
    sock.sendall(b"AMQP\x00\x00\x09\x01")
    return bool(sock.recv(1))


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(("127.0.0.1", port)) == 0
