"""`yaffle host-agent` reports to a server, and what that makes of it is shown."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.functional.cli.support import Running, Server
from tests.servers.authority import authority
from tests.waiting import wait_for

SETTINGS = """
[hosts]
poll = 1

[hosts.domains]
rack1 = ["compute*"]
rack9 = ["cmp9*"]

[host_monitors.agents]
type = "heartbeat"
listen = "127.0.0.1:{port}"
certificate = "{pki}/engine.pem"
key = "{pki}/engine.key"
ca = "{pki}/ca.pem"
vantage_point = "engine1"
"""


def test_an_agent_reports_to_a_server_and_says_goodbye(tmp_path: Path) -> None:
    pki = authority(tmp_path)
    pki.issue("engine", "localhost")
    cert, key = pki.issue("compute1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "yaffle.toml"
    config.write_text(SETTINGS.format(port=port, pki=tmp_path))
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    words = ("--engine", f"localhost:{port}", "--ca", str(pki.ca), "--host", "compute1")
    words += ("--certificate", str(cert), "--key", str(key), "--every", "0.5")
    agent = Running("host-agent", *words, "--state-dir", str(tmp_path / "agent"))
    agent.line("Connection refused")
    server.start()

    def state() -> str:
        hosts = server.ok("host", "list", "--json").json["hosts"]
        return ",".join(f"{host['host']} {host['state']}" for host in hosts)

    def monitors() -> dict[str, str]:
        checks = server.cli("doctor", "--json").json["checks"]
        return next(check for check in checks if check["name"] == "host monitors")

    try:
        agent.line(f"localhost:{port}: it hears this host")
        wait_for(lambda: state() == "compute1 up")
        said = server.ok("host", "why", "compute1").out
        assert "would miss it, and that takes 2 vantage points" in said
        assert monitors()["status"] == "warn"
        assert "not finding every failure: agents (fewer than 2" in monitors()["detail"]
        assert "in hosts.domains, without a host: rack9;" in f"{monitors()['detail']};"
        assert "rack1" in server.ok("host", "show", "compute1").out
        agent.signal(signal.SIGTERM)
        assert agent.end() == 0
        wait_for(lambda: state() == "compute1 stopped")
        assert "said goodbye" in server.ok("host", "why", "compute1").out
        assert "not finding every failure" not in monitors()["detail"]
    finally:
        agent.process.kill()
        assert server.stop() == 0
