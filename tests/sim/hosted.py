"""Machines under the nodes of a stage: they die, are cut off, and the backend tells how they are.

A node on a machine that is dead or cut off answers nobody, and the backend goes on saying of the
node what it said last, as Nova does. EVACUATE starts the same copy on the machine that is given, and
only off one that the backend has lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tests.sim.stage import Stage, policy

from yaffle.core.health.check_codes import judge
from yaffle.drivers.detectors.backend.hypervisor import HypervisorDetector
from yaffle.model.health import Observation
from yaffle.model.ids import NodeId
from yaffle.model.operations import (
    HostReading,
    OldCopy,
    OperationSpec,
    ParamSpec,
    Progress,
    ProgressState,
    Reading,
    Vacated,
)
from yaffle.ports import DriverContext

URL = {
    "type": "NODE_STATUS_POLL_URL",
    "options": {"poll_url": "http://{node_ip}/", "poll_url_retry_limit": 1},
}
STATUS = {"type": "NODE_STATUS_POLLING"}
HYPERVISORS = {"type": "HYPERVISOR_STATUS_POLLING"}
MOVES = [{"name": "REBOOT", "timeout": 20}, {"name": "EVACUATE", "timeout": 40}]
EVACUATE = OperationSpec(
    description="The same copy elsewhere.",
    in_place=False,
    params={"host": ParamSpec(type=str, description="Where to.")},
)


class Machines:
    """Where each node is, and how the machines are."""

    def __init__(self, s: Stage, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.spare = names[-1]
        self.place: dict[NodeId, str] = {}
        self.dead: set[str] = set()
        self.cut: set[str] = set()
        """Alive, and nobody reaches their nodes."""
        self.speechless: set[str] = set()
        """The backend cannot say how these are."""
        self.old: dict[str, dict[str, OldCopy]] = {}
        """By machine, what is left there of what was moved off it."""
        self.barred: set[str] = set()
        """Alive or not, the backend gives them nothing to carry."""
        self._s = s

    def now_s(self) -> float:
        return self._s.clock.monotonic_s()

    def back(self, name: str, *, barred: bool = True) -> None:
        """Start a machine again, with all that it had on it."""
        self.dead.discard(name)
        (self.barred.add if barred else self.barred.discard)(name)

    def clean(self, name: str, told: OldCopy = OldCopy.GONE) -> None:
        """Let a machine remove what is left of what was moved off it, or nobody know."""
        self.old[name] = dict.fromkeys(self.old.get(name, {}), told)

    def host(self, node_id: NodeId) -> str:
        """Return the machine of a node: the first ones in turn, until it is moved."""
        names = self.names[:-1] or self.names
        return self.place.setdefault(node_id, names[len(self.place) % len(names)])

    def on(self, name: str) -> list[NodeId]:
        return sorted(i for i in self._s.world.copies if i and self.host(i) == name)

    def die(self, name: str) -> None:
        self.dead.add(name)
        for ident in self.on(name):
            self._s.world.kill(ident)

    def silent(self, node_id: NodeId) -> bool:
        return self.host(node_id) in self.dead | self.cut

    def known(self, node_id: NodeId) -> HostReading:
        name = self.host(node_id)
        if name in self.speechless:
            return HostReading(name=name, up=None, detail="nobody can say")
        up = name not in self.dead | self.barred
        return HostReading(name=name, up=up, detail="up" if up else "down")


class Placed:
    """A profile whose nodes are on machines; `tells`: whether it says how those are."""

    def __init__(self, inner: Any, machines: Machines) -> None:
        self._inner, self._machines = inner, machines
        self.operations = MappingProxyType({**inner.operations, "EVACUATE": EVACUATE})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def read(self, targets: Any, *, deadline_s: float) -> Sequence[Reading]:
        seen = await self._inner.read(targets, deadline_s=deadline_s)
        seen = [self._seated(t, one) for t, one in zip(targets, seen, strict=True)]
        stale = Reading(exists=True, up=True, backend_status="running", detail="it ran")
        silent = [self._machines.silent(t.node_id) for t in targets]
        return [stale if lost else one for one, lost in zip(seen, silent, strict=True)]

    def _seated(self, target: Any, one: Reading) -> Reading:
        """Say of a node's own copy on which machine it is."""
        if not one.exists or one.physical_id != target.physical_id:
            return one
        return replace(one, attributes={"host": self._machines.host(target.node_id)})

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        machines, ident = self._machines, op.target.node_id
        if op.kind == "EVACUATE":
            if machines.known(ident).up is not False:
                return Progress(state=ProgressState.FAILED, detail="its host is up")
            machines.place[ident] = machines.spare
        elif op.kind != "DELETE" and machines.host(ident) in machines.dead:
            if op.kind != "CREATE":
                return Progress(state=ProgressState.FAILED, detail=f"{op.kind}: no host")
            machines.place[ident] = machines.spare
        # The machine apart it is what the world knows as the same copy made anew.
        asked = replace(op, kind="REBUILD") if op.kind == "EVACUATE" else op
        done = await self._inner.submit(asked, operation_id=operation_id, deadline_s=deadline_s)
        return self._placed(op, done)

    async def poll(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        done = await self._inner.poll(op, operation_id=operation_id, deadline_s=deadline_s)
        return self._placed(op, done)

    def _placed(self, op: Any, done: Progress) -> Progress:
        if op.kind not in {"CREATE", "EVACUATE"}:
            return done
        host = self._machines.host(op.target.node_id)
        return replace(done, attributes={"node_ip": "192.0.2.1", "host": host})


class Telling(Placed):
    """As Placed; it also says how the machines are."""

    async def hosts(self, targets: Any, *, deadline_s: float) -> Sequence[HostReading]:
        return [self._machines.known(t.node_id) for t in targets]


class Returning(Telling):
    """As Telling; what is moved off a machine stays there as well until that has cleaned up."""

    def __init__(self, inner: Any, machines: Machines) -> None:
        super().__init__(inner, machines)
        self.admitted: list[str] = []

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        left = self._machines.host(op.target.node_id)
        done = await super().submit(op, operation_id=operation_id, deadline_s=deadline_s)
        if op.kind == "EVACUATE" and self._machines.host(op.target.node_id) != left:
            copies = self._machines.old.setdefault(left, {})
            copies[op.target.physical_id] = OldCopy.LEFT
        return done

    async def vacated(self, host: str, targets: Any, *, deadline_s: float) -> Vacated:
        machines = self._machines
        told = machines.old.get(host, {})
        on = {t.physical_id: machines.host(t.node_id) == host for t in targets}
        copies = {
            i: told.get(i, OldCopy.PRESENT if here else OldCopy.UNTOLD) for i, here in on.items()
        }
        mute = host in machines.speechless
        return Vacated(
            name=host,
            up=None if mute else host not in machines.dead | machines.barred,
            barred=host in machines.barred,
            reported="" if host in machines.dead else f"{machines.now_s():.0f}",
            copies={} if mute else copies,
            detail="as the world says",
            admit=f"let {host} in",
        )

    async def admit(self, host: str, target: Any, *, deadline_s: float) -> str:
        self.admitted.append(host)
        self._machines.barred.discard(host)
        return "let in again"


class Muffled:
    """A detector that hears nothing of nodes on machines that are dead or cut off."""

    def __init__(self, inner: Any, machines: Machines) -> None:
        self._inner, self._machines = inner, machines
        self.type = inner.type

    async def check(self, targets: Any, mode: Any, *, deadline_s: float) -> Sequence[Observation]:
        seen = await self._inner.check(targets, mode, deadline_s=deadline_s)
        return [_silence(one) if self._machines.silent(one.node_id) else one for one in seen]


def _silence(one: Observation) -> Observation:
    code = "L4-TIMEOUT"
    said = {"code": code, "outcome": judge(code), "answered": False, "detail": "no answer"}
    return replace(one, **said)  # type: ignore[arg-type]


def equip(
    machines: Machines, *kits: Any, tells: bool = True, placed: type[Placed] | None = None
) -> None:
    """Put the nodes that these processes see on machines."""
    for ctx in kits:
        profiles: Any = ctx.drivers.profiles
        for name, inner in list(profiles.items()):
            profiles[name] = (placed or (Telling if tells else Placed))(inner, machines)
        detectors: Any = ctx.drivers.detectors
        detectors["NODE_STATUS_POLL_URL"] = Muffled(detectors["NODE_STATUS_POLL_URL"], machines)
        detectors["HYPERVISOR_STATUS_POLLING"] = HypervisorDetector(
            DriverContext(
                clock=ctx.clock,
                state_dir=None,  # type: ignore[arg-type] # it keeps nothing
                profiles=profiles,
            )
        )


def moving(*modes: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    """A policy that moves nodes off a lost host; URLs alone unless modes are given."""
    limits = {"max_unhealthy": "40%", "max_in_flight": 2}
    return policy(
        **{"detection_modes": list(modes or [URL]), "actions": MOVES, "limits": limits, **changed}
    )
