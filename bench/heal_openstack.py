"""Healing of Nova servers beside Senlin's: from the failure until the node runs again, in a real cloud.

    python bench/heal_openstack.py [--rounds 3] [--interval 5] [--failures off deleted …] [--state DIR]

A lab of its own comes up (Keystone, Nova with two hosts, RabbitMQ; see `lab/openstack`), and beside it
Senlin 16, the service that OpenStack retired, as it was then (`_senlin.py`; its packages take a minute).
Each row breaks one server from outside and waits until Nova and the hypervisor say that the node's
server runs: under a real `yaffle serve` by polling, by polling and events, and under Senlin with the same
interval. Yaffle acts at the second failed look, as it does unless it is told otherwise, and fences first;
Senlin acts at the first, and fences nothing. Of `host killed` (only where asked) Nova itself needs up
to 9 s to notice (a minute in a real cloud). Times hang on the machine, and nothing is exited on but
that Yaffle heals all. CPU is measured elsewhere: `nova_list.py` for polling, `notifications.py` for
events.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from _python import ROOT, described

sys.path.insert(0, str(ROOT))

from _senlin import Senlin, senlin
from lab.openstack import Lab
from lab.openstack.api import Refused
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.play import own_lab
from tests.openstack.cloud import PAUSED, RUNNING, Cloud

HEAL_S: Final = 240.0
SENLIN_S: Final = 90.0
"""What Senlin has not healed by then it does not see as a failure."""
POLLED, HEARD, SENLIN = "polling", "polling and events", "Senlin 16"
SIDES: Final = (POLLED, HEARD, SENLIN)
LOST: Final = "cmp2"
AGENT: Final = ROOT / "tests/contract/fencers_host/scripted_agent.py"
PROFILE: Final = {
    "type": "os.nova.server",
    "version": "1.0",
    "properties": {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"},
}
SENLINS: Final = {"flavor": "lab.tiny", "image": "lab-image", "networks": []}
"""Senlin knows no word for "no network", and refuses a profile that is silent about it."""
FENCING: Final = """
[drivers.HOST.devices.rack]
agent = "{folder}/fence_scripted"
options = {{device = "{folder}", username = "admin"}}
password_file = "{folder}/password"
hosts = {{cmp1 = "1", cmp2 = "2"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A way to fail, and the ladder that a person would give for it."""

    what: str
    actions: tuple[Mapping[str, object], ...]
    fencing: str = "COMPUTE"
    modes: tuple[str, ...] = ("NODE_STATUS_POLLING",)
    wished: bool = False
    """Whoever listens to Nova knows that a user asked for it, and leaves it so."""


REBOOT: Final = {"name": "REBOOT", "params": {"type": "HARD"}, "timeout": 60}
RECREATE: Final = {"name": "RECREATE", "timeout": 120}
FAILURES: Final = {
    "off": Failure(what="switched off", actions=({"name": "START", "timeout": 30}, RECREATE)),
    "pause": Failure(what="paused behind Nova's back", actions=(REBOOT, RECREATE)),
    "deleted": Failure(what="deleted by its user", actions=(RECREATE,), wished=True),
    "vanish": Failure(what="wiped from its host", actions=(RECREATE,)),
    "host": Failure(
        what="host killed",
        actions=({"name": "EVACUATE", "timeout": 120},),
        fencing="HOST",
        modes=("NODE_STATUS_POLLING", "HYPERVISOR_STATUS_POLLING"),
    ),
}
GUESTS: Final = [name for name in FAILURES if name != "host"]
"""What is broken unless somebody asks for a host: that takes minutes a round."""


def policy(failure: Failure, interval_s: int, *, events: bool) -> str:
    """Return the document; a failure counts at the second look."""
    modes = [*failure.modes, *(["LIFECYCLE_EVENTS"] if events else [])]
    detection = {
        "interval": interval_s,
        "node_update_timeout": 2 * interval_s,
        "rise": 1,
        "fall": 2,
        "recovery_conditional": "ANY_FAILED",
        "detection_modes": [{"type": mode} for mode in modes],
    }
    recovery = {
        "fencing": [failure.fencing],
        "actions": list(failure.actions),
        "limits": {"max_unhealthy": "100%"},
        "retry": {"backoff": 2 * interval_s},
    }
    document = {"type": "senlin.policy.health", "version": "1.3"}
    return json.dumps({**document, "properties": {"detection": detection, "recovery": recovery}})


@contextmanager
def yaffle(cloud: Cloud, folder: Path) -> Iterator[Server]:
    """Serve a project, as an administrator of it."""
    agent = Path(shutil.copy(AGENT, folder / "fence_scripted"))
    agent.chmod(0o755)
    for name, text in (("power", "on"), ("plan.json", "{}"), ("password", "secret\n")):
        (folder / name).write_text(text)
    (folder / "password").chmod(0o600)
    config = folder / "yaffle.toml"
    config.write_text(
        f'[drivers."os.nova.server-1.0"]\ncloud = "{cloud.name}"\n'
        f'clouds_file = "{cloud.clouds_yaml}"\n'
        f'[drivers.LIFECYCLE_EVENTS.sources.lab]\nurls = ["{cloud.lab.plan.bus_url}"]\n'
        f'exchanges = ["nova"]\n{FENCING.format(folder=folder)}'
    )
    server = Server(folder / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=json.dumps(PROFILE))
        yield server
    finally:
        server.stop(signal.SIGTERM)


def copy_of(server: Server) -> str:
    """Return the id of the node's server."""
    (node,) = server.ok("node", "list", "--json").json["nodes"]
    return str(node["physical_id"])


def is_well(server: Server) -> bool:
    """Whether the node is believed to be; a host that it was moved off stays in quarantine."""
    nodes = server.ok("node", "list", "--json").json["nodes"]
    found = server.ok("incident", "list", "--json").json["incidents"]
    ill = [i for i in found if i["open"] and i["cause"] != "host-quarantined"]
    return [n["health"] for n in nodes] == ["healthy"] and not ill


def runs(cloud: Cloud) -> str | None:
    """Return the id of the project's one server that Nova and its hypervisor say runs."""
    for ident in cloud.lab.servers_of(cloud.credentials.project_id):
        try:
            seen = cloud.show(ident)
        except Refused:
            continue
        guest = cloud.lab.guests_of(seen.host).get(ident) if seen.host else None
        if (seen.status, seen.power, guest) == ("ACTIVE", RUNNING, RUNNING):
            return ident
    return None


def broken(cloud: Cloud, how: str, ident: str) -> Callable[[], bool]:
    """Break a server; return whether it is healed, asked again and again."""
    match how:
        case "deleted":
            cloud.lab.api.call("POST", "compute", f"/servers/{ident}/action", {"forceDelete": None})
            # Nova takes its time over it, and says ACTIVE until then.
            return lambda: runs(cloud) not in {None, ident}
        case "host":
            cloud.lab.kill_host(LOST)
            return lambda: (found := runs(cloud)) is not None and cloud.show(found).host != LOST
        case _:
            getattr(cloud.guest(ident), how)()
    if how == "pause":
        assert cloud.lab.guests_of(cloud.show(ident).host)[ident] == PAUSED
    return lambda: runs(cloud) is not None


def under_yaffle(cloud: Cloud, how: str, interval_s: int, folder: Path, *, events: bool) -> float:
    """Return the seconds from the failure until the node runs."""
    with yaffle(cloud, folder) as server:
        document = policy(FAILURES[how], interval_s, events=events)
        server.ok("policy", "create", "care", "-", given=document)
        with placed(cloud.lab, how):
            server.ok("cluster", "create", "web", "--profile", "web", "--policy", "care")
            wait_for(lambda: is_well(server), within_s=HEAL_S)
        took_s = healed_after(cloud, how, copy_of(server), interval_s, HEAL_S)
        wait_for(lambda: is_well(server), within_s=HEAL_S)
        if took_s is None:
            raise TimeoutError(f"Yaffle has not healed {FAILURES[how].what} within {HEAL_S:g} s")
        return took_s


def under_senlin(cloud: Cloud, how: str, interval_s: int) -> float | None:
    """As `under_yaffle`; None where Senlin did nothing about it."""
    service = Senlin(cloud.api)
    detection = {
        "interval": interval_s,
        "node_update_timeout": 2 * interval_s,
        "detection_modes": [{"type": mode} for mode in FAILURES[how].modes],
        "recovery_conditional": "ANY_FAILED",
    }
    document = {"type": "senlin.policy.health", "version": "1.1"}
    recovery = {"actions": [{"name": "RECREATE"}]}
    properties = {"detection": detection, "recovery": recovery}
    profile = service.profile("web", {**PROFILE, "properties": SENLINS})
    care = service.policy("care", {**document, "properties": properties})
    with placed(cloud.lab, how):
        cluster = service.cluster("web", profile, care)
    try:
        return healed_after(cloud, how, service.copy(cluster), interval_s, SENLIN_S)
    finally:
        service.let_go(cluster, care)


def healed_after(
    cloud: Cloud, how: str, ident: str, interval_s: int, within_s: float
) -> float | None:
    """Break a server that is well; return the seconds until the node runs, None if it never does."""
    # The moment of a failure is anywhere between two looks.
    time.sleep(interval_s * 2 + 0.37 * interval_s)
    began_s = time.monotonic()
    healed = broken(cloud, how, ident)
    while not healed():
        if time.monotonic() - began_s > within_s:
            return None
        time.sleep(0.1)
    return time.monotonic() - began_s


def one_round(lab: Lab, how: str, side: str, interval_s: int, folder: Path) -> float | None:
    """Play one failure in a project of its own."""
    folder.mkdir(parents=True)
    cloud = Cloud(lab=lab, credentials=lab.project(roles=("member", "admin")))
    try:
        if side == SENLIN:
            return under_senlin(cloud, how, interval_s)
        return under_yaffle(cloud, how, interval_s, folder, events=side == HEARD)
    finally:
        if how == "host":
            lab.repair()
        cloud.remove()


@contextmanager
def placed(lab: Lab, how: str) -> Iterator[None]:
    """Have the servers of the block made where the failure wants them."""
    if how != "host":
        yield
        return
    with only_on(lab, LOST):
        yield


@contextmanager
def only_on(lab: Lab, host: str) -> Iterator[None]:
    """Have Nova place new servers nowhere else."""
    others = [h for h in lab.hosts if h != host]
    for other in others:
        _open(lab, other, to_new=False)
    try:
        yield
    finally:
        for other in others:
            _open(lab, other, to_new=True)


def _open(lab: Lab, host: str, *, to_new: bool) -> None:
    found = lab.api.get("compute", f"/os-services?host={host}&binary=nova-compute")["services"]
    status = "enabled" if to_new else "disabled"
    lab.api.call("PUT", "compute", f"/os-services/{found[0]['id']}", {"status": status})


def sides(failure: Failure) -> list[str]:
    """Return those by which it is a failure."""
    return [side for side in SIDES if not (failure.wished and side == HEARD)]


def words(took: Sequence[float | None]) -> str:
    """Show the times of some rounds."""
    return " ".join("never" if s is None else f"{s:.1f}" for s in took)


def median(took: Sequence[float | None]) -> str:
    """Show the one in the middle, as far as there is one."""
    if not took:
        return "is left: a wish"
    healed = [s for s in took if s is not None]
    return f"{statistics.median(healed):.1f} s" if len(healed) == len(took) else "not at all"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="of each failure and side")
    parser.add_argument("--interval", type=int, default=5, help="seconds between two looks")
    parser.add_argument("--failures", nargs="+", choices=FAILURES, default=GUESTS)
    parser.add_argument("--state", type=Path, help="a lab that runs already, and nobody else uses")
    args = parser.parse_args()
    print(described())
    # Whoever ends this ends the lab too, and all that runs in it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows: list[tuple[str, dict[str, list[float | None]]]] = []
    with ExitStack() as stack:
        lab = stack.enter_context(own_lab(args.state))
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heal-")))
        stack.enter_context(senlin(lab))
        for how in args.failures:
            took: dict[str, list[float | None]] = {side: [] for side in SIDES}
            for number in range(args.rounds):
                for side in sides(FAILURES[how]):
                    folder = root / f"{how}-{side}-{number}"
                    took[side].append(one_round(lab, how, side, args.interval, folder))
            for side in sides(FAILURES[how]):
                print(f"  {FAILURES[how].what:<28}{side:<20}{words(took[side])} s", flush=True)
            rows.append((FAILURES[how].what, took))
    print(f"\n  {'median of ' + str(args.rounds):<28}" + "".join(f"{s:>20}" for s in SIDES))
    for what, took in rows:
        print(f"  {what:<28}" + "".join(f"{median(took[side]):>20}" for side in SIDES))


if __name__ == "__main__":
    main()
