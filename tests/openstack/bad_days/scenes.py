"""One Yaffle with one cluster in the lab's cloud, and an outage that begins at one moment of its work."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.openstack import Lab, LabError
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.clouds import through
from tests.openstack.bad_days.gate import Cut, Gate, Seen, standing
from tests.openstack.bad_days.record import lives, twins
from tests.openstack.cloud import Cloud

PROFILE: Final = """
type: os.nova.server
version: "1.0"
properties: {flavor: lab.tiny, image: lab-image, networks: none}
"""
POLICY: Final = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 4
    node_update_timeout: 8
    rise: 1
    fall: 2
    recovery_conditional: ANY_FAILED
    detection_modes:
      - type: MODE
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: START, timeout: 60}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 90%, max_in_flight: 4}
    retry: {attempts: 20, backoff: 4, max_backoff: 20, stable_after: 30}
"""
STUCK: Final = "stuck_after = 30\nstuck_after_long = 120\n"
"""What Nova wrote down and then lost with its bus or its database stands for ever: not for the default
ten minutes, and an hour, of these days."""
ROLES: Final = ("member", "admin")
"""Only an administrator gets a server off a task that Nova has lost."""
BUILD_S: Final = 300.0
SEEN_S: Final = 20.0
"""A reading is believed for so long at most: the policy's interval, its deadline, and a busy machine."""
FIRST: Final = "web-1"
Break = Callable[["Scene"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A moment in Yaffle's work, and how it is brought about."""

    name: str
    what: str
    cut: Cut
    waits_for: Callable[[Scene, Seen], bool]
    before: Break = lambda _: None
    """What fails, so that the moment comes."""
    meanwhile: Break = lambda _: None
    """What fails during the outage."""
    mode: str = "NODE_STATUS_POLLING"
    size: int = 2
    begun: bool = True
    """Whether a recovery is under way when the outage begins."""


@dataclass(slots=True)
class Scene:
    """`phase` with everything that it needs, in a project of its own."""

    phase: Phase
    cloud: Cloud
    gate: Gate
    yaffle: Server
    copies: dict[str, str] = field(default_factory=dict)
    """The servers of the nodes, when all was well."""
    idents: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def begin(self, mode: str = "") -> None:
        """Have the cluster made."""
        mode = mode or self.phase.mode
        policy = POLICY.replace("MODE", mode)
        if mode == "LIFECYCLE_EVENTS":
            policy = policy.replace("interval: 4", "interval: 10")
            policy = policy.replace("node_update_timeout: 8", "node_update_timeout: 20")
            policy = policy.replace("backoff: 4", "backoff: 10")
        self.yaffle.ok("profile", "create", "web", "-", given=PROFILE)
        self.yaffle.ok("policy", "create", "care", "-", given=policy)
        words = ("--size", str(self.phase.size), "--policy", "care", "--no-wait")
        self.yaffle.ok("cluster", "create", "web", "--profile", "web", *words)

    def ready(self) -> None:
        """Wait until all of it is well, and remember how that looked."""
        wait_for(lambda: len(self.healthy()) == self.phase.size, within_s=BUILD_S, every_s=0.5)
        self.copies = {n["name"]: n["physical_id"] for n in self.nodes()}
        self.idents = {n["name"]: n["id"] for n in self.nodes()}

    def fail(self) -> None:
        """Bring the moment about; the gate springs when it has come."""
        phase = self.phase
        self.gate.arm(phase.cut, lambda seen: phase.waits_for(self, seen))
        phase.before(self)

    def breaks(self, node: str, how: str) -> None:
        """Break one node's server from outside."""
        self.broken.add(node)
        if how == "deleted":
            # By somebody else: not through the gate, and not with our credentials.
            path = f"/servers/{self.copies[node]}/action"
            self.cloud.lab.api.call("POST", "compute", path, {"forceDelete": None})
        else:
            getattr(self.cloud.guest(self.copies[node]), how)()

    def will_go_off(self, node: str) -> None:
        """Switch a guest off as soon as its host is able to: without a bus that may be later."""
        self.broken.add(node)
        lab, ident = self.cloud.lab, self.copies[node]
        (host,) = (h for h in lab.hosts if ident in lab.guests_of(h))
        (lab.plan.host_data(host) / "ctl" / ident).write_text("off")

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes as Yaffle shows them."""
        found: list[dict[str, Any]] = self.yaffle.ok("node", "list", "--json").json["nodes"]
        return found

    def healthy(self) -> list[str]:
        """Return the names of those that are believed to be well."""
        return [n["name"] for n in self.nodes() if n["health"] == "healthy"]

    def incidents(self) -> list[dict[str, Any]]:
        """Return the stories of all failures."""
        found: list[dict[str, Any]] = self.yaffle.ok("incident", "list", "--json").json["incidents"]
        return found

    def settled(self) -> bool:
        """Whether every node is well, and every failure over."""
        return len(self.healthy()) == self.phase.size and not any(
            i["open"] for i in self.incidents()
        )

    def why(self) -> str:
        """Return what Yaffle says of the nodes that are not well."""
        sick = [n["name"] for n in self.nodes() if n["health"] != "healthy"]
        return "\n".join(self.yaffle.cli("why", name).out for name in sick)

    # --- what must be true of every bad day ------------------------------------------------------

    def blind(self, out_s: float, back_s: float) -> list[Seen]:
        """Return the acts that were asked for while nothing could be read."""
        known = [
            s.at_s
            for s in list(self.gate.seen)
            if s.method == "GET"
            and "/servers" in s.path
            and (200 <= s.status < 300 or s.status == 404)
        ]
        return [
            act
            for act in self.gate.writes(out_s, back_s)
            if not any(act.at_s - SEEN_S <= at_s <= act.at_s for at_s in known)
            and not self._under_way(act)
        ]

    def _under_way(self, act: Seen) -> bool:
        """Whether an act belongs to the recovery in whose middle the outage began."""
        mine = {self.copies[FIRST], self.idents[FIRST]}
        return self.phase.begun and bool(mine & {act.server, act.node})

    def wrongs(self, out_s: float, back_s: float) -> list[str]:
        """Return everything that should not have been, by Nova's own record."""
        found = [f"asked blindly: {act}" for act in self.blind(out_s, back_s)]
        by_node = lives(self.cloud, self.gate.made)
        names = {ident: name for name, ident in self.idents.items()}
        now = {n["id"]: n["physical_id"] for n in self.nodes()}
        for node, several in by_node.items():
            name = names.get(node, f"nobody's ({node})")
            found += [f"{name} had two servers at once: {pair}" for pair in twins(several)]
            alive = [s for s in several if s.ended is None]
            if [s.id for s in alive] != [now.get(node)]:
                found.append(
                    f"{name} has {[s.id for s in alive]}, and is said to have {now.get(node)}"
                )
            found += [f"{name}: {s.id} is {s.status}" for s in alive if s.status != "ACTIVE"]
            # A host that was cut off may notice late what was done to its guest: that is waited for.
            untouched = [s.acts for s in several] == [("create",)]
            if untouched and name in self.broken:
                found.append(f"{name} was to fail, and nothing was ever done for it")
            if not untouched and name not in self.broken:
                found.append(f"{name} had not failed, and yet: {[s.acts for s in several]}")
        missing = set(self.idents.values()) - set(by_node)
        return found + [f"nothing is left of {names[node]}" for node in missing]


# --- moments -----------------------------------------------------------------------------------


def _first(scene: Scene, how: str) -> None:
    scene.breaks(FIRST, how)


def _creates(scene: Scene, seen: Seen) -> bool:
    return seen.act == "create" and seen.node == scene.idents[FIRST]


def _burst(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.breaks(f"web-{number}", "off")


PHASES: Final[Mapping[str, Phase]] = {
    phase.name: phase
    for phase in (
        Phase(
            name="sweep",
            what="while all servers are listed; a server fails meanwhile",
            cut=Cut.BEFORE,
            waits_for=lambda _, seen: seen.path.endswith("/servers/detail"),
            meanwhile=lambda scene: scene.will_go_off(FIRST),
            begun=False,
        ),
        Phase(
            name="before",
            what="a server is off, and the first act to heal it is about to be asked for",
            cut=Cut.BEFORE,
            waits_for=lambda _, seen: seen.writes,
            before=lambda scene: _first(scene, "off"),
        ),
        Phase(
            name="sent",
            what="another server is asked for, and the request is on its way",
            cut=Cut.LATE,
            waits_for=_creates,
            before=lambda scene: _first(scene, "deleted"),
        ),
        Phase(
            name="asked",
            what="another server was asked for, and no answer has come",
            cut=Cut.UNANSWERED,
            waits_for=_creates,
            before=lambda scene: _first(scene, "deleted"),
        ),
        Phase(
            name="polled",
            what="another server was accepted, and is being built",
            cut=Cut.AFTER,
            waits_for=_creates,
            before=lambda scene: _first(scene, "deleted"),
        ),
        Phase(
            name="fencing",
            what="a wiped server was to be killed, and no answer has come",
            cut=Cut.UNANSWERED,
            waits_for=lambda _, seen: seen.act == "forceDelete",
            before=lambda scene: _first(scene, "vanish"),
        ),
        Phase(
            name="events",
            what="three servers go off at once and Nova tells it; a fourth follows meanwhile",
            cut=Cut.BEFORE,
            waits_for=lambda scene, seen: seen.server in scene.copies.values(),
            before=_burst,
            meanwhile=lambda scene: scene.will_go_off("web-4"),
            mode="LIFECYCLE_EVENTS",
            size=5,
            begun=False,
        ),
    )
}


@contextmanager
def scene(lab: Lab, phase: Phase, folder: Path, database: str = "") -> Iterator[Scene]:
    """Give a scene that is ready to begin; afterwards nothing of it is left in the cloud."""
    cloud = Cloud(lab=lab, credentials=lab.project(roles=ROLES))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with standing(lab) as gate:
            config = settings(cloud, gate, folder, database, STUCK)
            yaffle = Server(folder / "state", flags=("--config", str(config)))
            try:
                yaffle.start()
                yield Scene(phase, cloud, gate, yaffle)
            finally:
                code = yaffle.stop(signal.SIGTERM) if yaffle.running is not None else 0
        assert code == 0, code
    finally:
        cloud.remove()


def settings(cloud: Cloud, gate: Gate, folder: Path, database: str = "", nova: str = "") -> Path:
    """Write what a Yaffle needs to know of its cloud, its bus and, if it is not its own, its database."""
    clouds = through(gate, cloud, folder)
    config = folder / "yaffle.toml"
    config.write_text(
        (f'[database]\nurl = "{database}"\n' if database else "")
        + f'[drivers."os.nova.server-1.0"]\ncloud = "{cloud.name}"\nclouds_file = "{clouds}"\n'
        f"full_sweep = 20\n{nova}"
        "[drivers.LIFECYCLE_EVENTS.sources.lab]\n"
        f'urls = ["{cloud.lab.plan.bus_url}"]\nexchanges = ["nova"]\n'
    )
    return config


def until_sprung(scenes: list[Scene], within_s: float = 240.0) -> None:
    """Wait until the moment of each has come."""
    end_s = time.monotonic() + within_s
    while waiting := [s.phase.name for s in scenes if not s.gate.sprung]:
        if time.monotonic() > end_s:
            raise LabError(f"the moment never came: {', '.join(waiting)}")
        time.sleep(0.1)
