"""A host without Pacemaker dies: two engines miss it, one switches it off, and it is told of."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest
from tests.contract.host_monitors.test_heartbeat import HOSTS, Agents, free_ports
from tests.contract.notifiers.receiver import receiver, say
from tests.functional.cli.support import Server, swept
from tests.servers import clock
from tests.servers.authority import authority
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)
SETTINGS = """
[hosts]
on_shared_storage = true
poll = 1
unfenced_after = 5
fence_lost = true

[host_monitors.agents]
type = "heartbeat"
listen = "127.0.0.1:{port}"
certificate = "{pki}/engine.pem"
key = "{pki}/engine.key"
ca = "{pki}/ca.pem"
lost_after = 5
vantage_point = "engine{number}"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{alerts}/"

[drivers.HOST.devices.rack]
agent = "{agent}"
hosts = {{ compute1 = "compute1", compute2 = "compute2", compute3 = "compute3" }}
"""
SWITCH = """#!/bin/sh
# A fence agent for what it is told on stdin: it writes down what it did.
while read -r line; do
    case $line in plug=*) plug=${{line#plug=}} ;; action=*) action=${{line#action=}} ;; esac
done
echo "$action $plug" >> {log}
case $action in
off) touch {off}/"$plug" ;;
status | monitor) if test -e {off}/"$plug"; then echo "Status: OFF"; exit 2; fi; echo "Status: ON" ;;
metadata) echo '<resource-agent name="switch"><parameters/><actions/></resource-agent>' ;;
esac
"""


def doctor(server: Server, name: str) -> dict[str, str]:
    """Return what `yaffle doctor` says of one thing."""
    checks = server.cli("doctor", "--json").json["checks"]
    return next(check for check in checks if check["name"] == name)


def monitors(server: Server) -> str:
    return doctor(server, "host monitors")["status"]


def test_a_host_that_two_engines_miss_is_switched_off_and_told(
    tmp_path: Path, postgres_ready: str
) -> None:
    pki, log, off, agent = (tmp_path / name for name in ("pki", "log", "off", "switch"))
    pki.mkdir()
    off.mkdir()
    agent.write_text(SWITCH.format(log=log, off=off))
    agent.chmod(0o755)
    made = authority(pki)
    made.issue("engine", "localhost")
    for host in HOSTS:
        made.issue(host)
    ports, mark = free_ports(2), f"beats-{uuid.uuid4().hex}"
    agents = Agents(made, tmp_path)
    with swept(mark), receiver(say(202)) as controller:
        engines = []
        for number, port in enumerate(ports, 1):
            config = tmp_path / f"{number}.toml"
            given = {"port": port, "number": number, "pki": pki, "agent": agent}
            config.write_text(SETTINGS.format(**given, alerts=controller.port))
            env = {"YAFFLE_DATABASE__URL": postgres_ready, "TEST_MARK": mark}
            # Their clocks are a minute apart, and no machine's is the database's.
            env |= clock.apart(tmp_path / f"{number}.clock", 30 * (-1) ** number)
            state = tmp_path / f"engine{number}"
            engines.append(Server(state, flags=("--config", str(config)), env=env))
        asked, other = engines

        def states() -> dict[str, str]:
            listed = asked.ok("host", "list", "--json").json["hosts"]
            return {host["host"]: host["state"] for host in listed}

        def story() -> list[str]:
            listed = asked.ok("events", "--host", "compute1", "--json").json["events"]
            return [event["status"] for event in listed]

        try:
            for host in HOSTS:
                agents.start(host, *ports)
            for engine in engines:
                engine.start()
            up = dict.fromkeys(HOSTS, "up")
            wait_for(lambda: states() == up)
            # Both have heard each of them, and for long enough.
            wait_for(lambda: monitors(asked) == "ok")
            offset = doctor(asked, "clock offset")["detail"]
            assert float(offset.partition(" s ")[0]) == pytest.approx(-30, abs=2)
            agents.freeze("compute1")
            why = ("host", "why", "compute1")
            wait_for(lambda: controller.seen, why=lambda: asked.ok(*why).out)
            failure = json.loads(controller.seen[0].body)["payload"]
            assert failure["hostname"] == "compute1"
            assert "off compute1" in log.read_text().splitlines()
            assert states() == {**up, "compute1": "fenced"}
            wait_for(lambda: story()[-1:] == ["accepted"])
            assert story() == ["lost", "unfenced", "begun", "recorded", "proved", "accepted"]
            agents.signal("compute1", signal.SIGCONT)
            off.joinpath("compute1").unlink()
            wait_for(lambda: states() == up)
            assert other.stop() == 0
            wait_for(lambda: monitors(asked) == "warn")
            agents.freeze("compute2")
            wait_for(lambda: states()["compute2"] == "unknown", within_s=120)
            assert (
                "it is not heard; engine1 would miss it" in asked.ok("host", "why", "compute2").out
            )
            assert "off compute2" not in log.read_text(), "one engine alone loses nobody"
            assert len(controller.seen) == 1
        finally:
            agents.end()
            for engine in engines:
                if engine.running is not None:
                    engine.stop(signal.SIGKILL)
