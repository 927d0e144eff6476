"""Pacemaker fences a host, and Yaffle moves its servers by that proof: a real cluster, a real Nova."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.pacemaker.cluster import PacemakerLab
from tests.contract.notifiers.receiver import receiver, say
from tests.functional.cli.support import Server, wait_for
from tests.openstack.nova.rack import care
from tests.openstack.nova.test_host_lost import (
    LEFT,
    LOST,
    PROFILE,
    WITHIN_S,
    all_healthy,
    closed,
    incidents_of,
    nodes,
)
from tests.openstack.nova.world import World
from tests.private import private
from tests.servers.pacemaker import pacemaker

pytestmark = pytest.mark.timeout(600)

NAME = "compute2.example.org"
REMOTE = "h002"
SETTINGS = """
[drivers."os.nova.server-1.0"]
cloud = "{cloud}"
clouds_file = "{clouds}"
full_sweep = 20

[hosts]
on_shared_storage = true
poll = 1

[hosts.names]
{remote} = "{name}"
{host} = "{name}"

[host_monitors.cluster]
type = "pacemaker"
programs = "{programs}"
cloud = "{cloud}"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacemakerLab]:
    with pacemaker(tmp_path_factory.mktemp("pcmk")) as running:
        yield running


@pytest.fixture
def hosts(broken_admin_world: World) -> Iterator[World]:
    """Hosts that may be frozen."""
    yield broken_admin_world
    broken_admin_world.cloud.lab.kill_host(LOST)


def test_servers_of_a_host_that_pacemaker_has_fenced_run_elsewhere(
    hosts: World, cluster: PacemakerLab, tmp_path: Path
) -> None:
    cloud, config = hosts.cloud, tmp_path / "yaffle.toml"
    with receiver(say(202)) as controller:
        config.write_text(
            SETTINGS.format(
                cloud=cloud.name,
                clouds=cloud.clouds_yaml,
                remote=REMOTE,
                host=LOST,
                name=NAME,
                programs=cluster.bin,
                port=controller.port,
            )
        )
        server = Server(tmp_path / "state", flags=("--config", str(config)))
        server.start()
        try:
            server.ok("profile", "create", "web", "-", given=PROFILE)
            server.ok("policy", "create", "care", "-", given=json.dumps(care("60%", 2)))
            on_two_hosts(hosts, server)
            before = {n["physical_id"]: cloud.show(n["physical_id"]).host for n in nodes(server)}
            (moves,) = (ident for ident, host in before.items() if host == LOST)

            # Nova's agent is away, and that proves nothing: the server may run there.
            cloud.lab.freeze(f"nova-compute-{LOST}")
            wait_for(lambda: incidents_of(server), within_s=WITHIN_S)
            wait_for(lambda: said(server, "host monitor cluster: Pacemaker: online"), within_s=60)
            assert cloud.show(moves).host == LOST
            assert controller.seen == []

            cluster.power("off", REMOTE)
            wait_for(lambda: controller.seen, within_s=WITHIN_S)
            wait_for(lambda: all_healthy(server, 2), within_s=WITHIN_S)
            assert (cloud.show(moves).status, cloud.show(moves).host) == ("ACTIVE", LEFT)
            told = [json.loads(one.body)["payload"]["hostname"] for one in controller.seen]
            assert told == [NAME], "one failure, though the cluster and a node have its proof"
            moved = next(i for i in incidents_of(server) if i["node_id"])
            shown = server.ok("incident", "show", moved["id"], "--json").out
            assert "pacemaker cluster" in shown, "the proof says whose it is"
        finally:
            assert server.stop() == 0


def on_two_hosts(hosts: World, server: Server) -> None:
    """Have a cluster with a node on the host that will be lost, and one on another."""
    closed(hosts.cloud, LEFT, to_new=True)
    server.ok("cluster", "create", "web", "--profile", "web", "--size", "1", "--policy", "care")
    wait_for(lambda: all_healthy(server, 1), within_s=WITHIN_S)
    closed(hosts.cloud, LEFT, to_new=False)
    closed(hosts.cloud, LOST, to_new=True)
    server.ok("cluster", "resize", "web", "--size", "2")
    wait_for(lambda: all_healthy(server, 2), within_s=WITHIN_S)
    closed(hosts.cloud, LOST, to_new=False)


def said(server: Server, words: str) -> bool:
    """Whether anything that was done about an incident says so."""
    shown: list[dict[str, Any]] = [
        server.ok("incident", "show", i["id"], "--json").json for i in incidents_of(server)
    ]
    return words in json.dumps(shown)


ALERTER = """
[hosts]
on_shared_storage = true
poll = 1

[hosts.names]
{remote} = "{name}"

[host_monitors.cluster]
type = "pacemaker"
programs = "{programs}"

[alerts.yaffle]
type = "http_json"
url = "{url}/yaffle/v1/host-failures"
secret_file = "{secret}"
"""
CONTROLLER = """
[drivers."os.nova.server-1.0"]
cloud = "{cloud}"
clouds_file = "{clouds}"
full_sweep = 20

[hosts]
poll = 1

[hosts.names]
{host} = "{name}"

[host_monitors.word]
type = "notified"
cloud = "{cloud}"
senders = ["alerter"]

[host_senders.alerter]
secret_file = "{secret}"
"""


def test_one_that_watches_the_cluster_tells_another_that_moves_the_servers(
    hosts: World, cluster: PacemakerLab, tmp_path: Path
) -> None:
    """The loop closes: Pacemaker, our alerter, our own recovery controller, Nova."""
    cloud = hosts.cloud
    private(secret := tmp_path / "secret", "one secret for the two of us\n")
    names = {"remote": REMOTE, "name": NAME, "host": LOST, "secret": secret}
    names |= {"cloud": cloud.name, "clouds": cloud.clouds_yaml, "programs": cluster.bin}
    cluster.bring_back()

    def start(kind: str, text: str, **more: object) -> Server:
        config = tmp_path / f"{kind}.toml"
        config.write_text(text.format(**names, **more))
        server = Server(tmp_path / kind, flags=("--config", str(config)))
        server.start()
        return server

    server = start("controller", CONTROLLER)
    card = json.loads((server.state_dir / "server.json").read_text())
    alerter = start("alerter", ALERTER, url=card["url"])
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=json.dumps(care("60%", 2)))
        on_two_hosts(hosts, server)
        before = {n["physical_id"]: cloud.show(n["physical_id"]).host for n in nodes(server)}
        (moves,) = (ident for ident, host in before.items() if host == LOST)
        listed = ("host", "list", "--state", "up", "--json")
        wait_for(lambda: len(alerter.ok(*listed).json["hosts"]) == len(cluster.remotes))

        cloud.lab.freeze(f"nova-compute-{LOST}")
        wait_for(lambda: incidents_of(server), within_s=WITHIN_S)
        cluster.power("off", REMOTE)
        wait_for(lambda: all_healthy(server, 2), within_s=WITHIN_S)
        assert (cloud.show(moves).status, cloud.show(moves).host) == ("ACTIVE", LEFT)
        wait_for(lambda: alerter.ok("alert", "list", "--json").json["alerts"], within_s=60)
        (alert,) = alerter.ok("alert", "list", "--json").json["alerts"]

        def told() -> dict[str, Any]:
            (one,) = server.ok("host", "notifications", "--json").json["notifications"]
            return dict(one)

        wait_for(lambda: told()["status"] == "finished", within_s=60)
        assert (alert["state"], told()["id"]) == ("accepted", alert["failure"]["id"])
        assert told()["sender"] == "alerter"
    finally:
        codes = [alerter.stop(), server.stop()]
    assert codes == [0, 0]
