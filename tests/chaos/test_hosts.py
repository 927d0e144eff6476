"""Bad days of hosts on a real cluster: none is told that may run, none that failed is forgotten.

Three members, six hosts, two engines whose clocks are a minute apart, on one database, and each asks
another member; a controller of bad manners.
`YAFFLE_CHAOS_MINUTES` lengthens it, `YAFFLE_CHAOS_SEED` repeats what is done (not what comes of it). What
is judged, and what the documents promise there, is in `host_history.py`.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from lab.openstack.errors import LabError
from lab.pacemaker.cluster import COMMANDS, PacemakerLab
from sqlalchemy import make_url
from tests.chaos.fleet.proxy import network
from tests.chaos.host_day import SOON_S, Controller, Day, members, missed, powers
from tests.chaos.host_history import History, excused, outages
from tests.chaos.lab import MINUTES
from tests.functional.cli.support import Server, swept
from tests.servers import clock
from tests.servers.pacemaker import pacemaker
from tests.waiting import wait_for

from yaffle.integrations.fence_yaffle import ATTRIBUTE

SHORT_S = 16.0
ROUND_S = 90.0
CALM_S = 150.0
"""A claim on a host holds for two minutes, whoever had it."""
STILL_S = 4.0
FORGOTTEN_S = 40.0
PATIENCE_S = 40.0
"""Pacemaker's controller stands still for 18 s at times, and then misses whoever it is moving."""
AHEAD_S = {"c1": 30, "c2": -30}
"""How far the clock of each engine's machine is ahead of the database's."""
NAMES = {"h001": "compute1.example.org", "h002": "compute2.example.org"}
# A lease below 8 s would leave our fencers less time for a call than the lab needs for an `off`.
SETTINGS = """
[engine]
lease = 8

[hosts]
on_shared_storage = true
poll = 1
unfenced_after = {patience:g}
fence_lost = true
fence_share = 0.5

[hosts.names]
{names}

[host_monitors.cluster]
type = "pacemaker"
programs = "{programs}"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/failures"

[drivers.HOST.devices.rack]
agent = "{agent}"

[drivers.HOST.devices.rack.hosts]
{hosts}
"""


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60 + CALM_S) + 600)
def test_whatever_happens_to_hosts(
    tmp_path_factory: pytest.TempPathFactory, postgres_ready: str
) -> None:
    seed = int(os.environ.get("YAFFLE_CHAOS_SEED") or 0) or random.SystemRandom().randrange(10**6)
    print(f"YAFFLE_CHAOS_SEED={seed}")  # pytest shows it when the test fails
    until_s = time.monotonic() + MINUTES * 60
    number = 0
    with scene(tmp_path_factory.mktemp("lab"), postgres_ready, seed) as day:
        while number == 0 or time.monotonic() < until_s:
            day.rng = random.Random(f"{seed}/{number}")
            try:
                day.act(ROUND_S if MINUTES else SHORT_S)
                day.calm()
                left, seen = settled(day)
                assert day.controller.requests, "nobody was told of anything"
                history = replace(recorded(day), waiting=left, states=seen)
                print(told(history))
                assert history.faults() == []
            except AssertionError as error:
                said = f"{error}\nseed {seed}, round {number}, what happened:\n"
                raise AssertionError(said + "\n".join(recorded(day).story())) from None
            number += 1


@contextmanager
def scene(folder: Path, database: str, seed: int) -> Iterator[Day]:
    """Have everything up and well."""
    mark = f"hosts-{uuid.uuid4().hex}"
    with swept(mark), network() as net, pacemaker(folder, hosts=6, members=3) as lab:
        controller = Controller(random.Random(seed))
        engines, databases = [], []
        server = make_url(database)
        for member in lab.members[:2]:
            config = folder / f"{member}.toml"
            config.write_text(
                settings(lab, programs(lab, folder / member, member), controller.port)
            )
            databases.append(net.proxy((str(server.host), int(server.port or 5432))))
            host, port = databases[-1].address
            url = server.set(host=host, port=port).render_as_string(hide_password=False)
            env = {"YAFFLE_DATABASE__URL": url, "TEST_MARK": mark}
            env |= clock.apart(folder / f"{member}.clock", AHEAD_S[member])
            state = folder / f"engine-{member}"
            engines.append(Server(state, flags=("--config", str(config)), env=env))
        day = Day(
            lab=lab,
            engines=engines,
            network=net,
            databases=databases,
            controller=controller,
            rng=random.Random(seed),
            back_s=60.0 if MINUTES else SOON_S,
        )
        try:
            for engine in engines:
                engine.start()
            wait_for(lambda: states(engines[0]) == dict.fromkeys(lab.remotes, "up"))
            yield day
            for engine in engines:
                assert engine.stop() == 0
        finally:
            day.close()
            for engine in engines:
                if engine.running is not None:
                    engine.running.signal(signal.SIGCONT)
                    engine.stop(signal.SIGKILL)
            controller.close()


def programs(lab: PacemakerLab, folder: Path, member: str) -> Path:
    """Return where Pacemaker's commands are those of one member: engines pass on no environment."""
    folder.mkdir()
    for command in COMMANDS:
        shim = folder / command
        shim.write_text(f'#!/bin/sh\nLAB_AT={member} exec {lab.bin / command} "$@"\n')
        shim.chmod(0o755)
    return folder


def settings(lab: PacemakerLab, commands: Path, port: int) -> str:
    """Return the configuration of one engine."""
    return SETTINGS.format(
        patience=PATIENCE_S,
        names="\n".join(f'{host} = "{name}"' for host, name in NAMES.items()),
        programs=commands,
        port=port,
        agent=lab.state / "sbin" / "fence_lab",
        hosts="\n".join(f'{host} = "{host}"' for host in lab.remotes),
    )


def states(server: Server) -> dict[str, str]:
    """Return how Yaffle calls each host."""
    return {h["host"]: h["state"] for h in server.ok("host", "list", "--json").json["hosts"]}


def waiting(server: Server) -> list[str]:
    """Return the alerts that are not accepted."""
    listed = server.ok("alert", "list", "--limit", "1000", "--json").json["alerts"]
    return [f"alert {a['seq']}: {a['state']}" for a in listed if a["state"] != "accepted"]


def settled(day: Day) -> tuple[list[str], dict[str, str]]:
    """Wait until nothing is outstanding, or has to be; return what waits and how each host is said to be.

    That is of the last look: Pacemaker moves connections whenever it likes, and a host is unknown then.
    """
    lab, asked = day.lab, day.engines[0]
    began_s = since_s = time.monotonic()
    while True:
        left, seen, now_s = waiting(asked), states(asked), time.monotonic()
        left += [f"{host} is marked" for host in marked(lab)]
        well = not left and seen == dict.fromkeys(lab.remotes, "up")
        if not (well and members(lab) == set(lab.members)):
            as_people_would(day, after_s=now_s - began_s)
            since_s = now_s
        if now_s - since_s > STILL_S or now_s - began_s > CALM_S:
            return left, seen
        time.sleep(0.5)


def recorded(day: Day) -> History:
    """Return all that was recorded of a day."""
    lab = day.lab
    return History(
        names={host: NAMES.get(host, host) for host in lab.remotes},
        members=lab.members,
        powers=powers(lab),
        deeds=[*day.deeds, *day.held_up],
        requests=day.controller.requests,
        missed=missed(lab),
        patience_s=PATIENCE_S,
    )


def told(history: History) -> str:
    """Say how much of a day it was."""
    offs = [p for p in history.powers if p.off and p.host in history.names]
    ours = sum(map(history.ours, offs))
    all_outages = [outage for host in history.names for outage in outages(history.of(host))]
    forgivable = sum(all(excused(history, off) for off in outage) for outage in all_outages)
    failures = {r.ident for r in history.requests}
    return (
        f"{len(history.deeds)} deeds; switched off {len(offs) - ours} times by the cluster, {ours} by us;"
        f" {len(all_outages)} outages, of which {forgivable} might be forgotten;"
        f" {len(failures)} failures in {len(history.requests)} requests"
    )


def as_people_would(day: Day, after_s: float) -> None:
    """Switch on who is off, offer at once what waits, and connect anew to whom the cluster forgot.

    Pacemaker forgets to count a host among its members at times, when it moves the connection while its
    coordinator changes: the connection is `Started`, and the host stays unknown.
    """
    day.tend()
    if waiting(day.engines[0]):
        day.engines[0].ok("alert", "retry")
    if after_s > FORGOTTEN_S:
        for host in set(day.lab.remotes) - day.lab.online():
            day.reconnect(host)


def marked(lab: PacemakerLab) -> list[str]:
    """Return the hosts whose failure the cluster still shows to whoever takes it over."""
    with suppress(LabError):
        path = f"//nodes/node[instance_attributes/nvpair[@name='{ATTRIBUTE}']]"
        said = lab.run("cibadmin", "--query", "--xpath", path, "--no-children", within_s=5)
        return [host for host in lab.remotes if f'"{host}"' in said]
    return []
