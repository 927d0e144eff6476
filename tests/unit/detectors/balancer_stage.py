"""A watch of three nodes behind a made-up balancer, in virtual time: what hearing is tested on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from yaffle.drivers.detectors.load_balancer.answers import Answer, observed, said
from yaffle.drivers.detectors.load_balancer.event_checks import EventChecks
from yaffle.drivers.detectors.load_balancer.pool import Failed, Member, Pool
from yaffle.drivers.detectors.load_balancer.settings import BalancerSettings
from yaffle.integrations.driver_settings import Section
from yaffle.model.health import Observation
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.testing.clock import VirtualClock
from yaffle.testing.loop import run_virtual

MODE = DetectionMode(
    key=ModeKey("0:LB_STATUS_POLLING"), type=ModeType.LB_STATUS_POLLING, options={"pool": "web"}
)
WEB = ("edge", "web")
UP, DOWN, MAINT = "LB-UP", "LB-DOWN", "LB-MAINT"
SOON_S = 0.4
"""More than lines are gathered for, and less than the gap between two looks."""


def node(name: str) -> Target:
    return Target(
        node_id=NodeId(name), name=name, physical_id=name, profile_type="made.up-1.0", spec={}
    )


NODES = [node("n1"), node("n2"), node("n3")]


@dataclass
class Edge:
    """A balancer that says what it is told to; `Balancers` by duck typing."""

    words: dict[str, str] = field(default_factory=lambda: {n.name: UP for n in NODES})
    asked: list[str] = field(default_factory=list)
    takes_s: float = 0.0
    fault: str = ""

    async def ask(
        self, _balancer: object, pool: str, _within_s: float, *, early: bool = False
    ) -> Answer:
        self.asked.append(pool)
        found: Pool = [
            Member(name=name, address="", code=code, words=code)
            for name, code in self.words.items()
        ]
        await asyncio.sleep(self.takes_s)
        found = Failed(code=self.fault, why="broken") if self.fault else found
        return Answer(place=f"edge/{pool}", noun="server", sources=[("a", found)])


@dataclass
class Scene:
    """One watch of three nodes behind `edge/web`, polled once."""

    edge: Edge
    hearing: EventChecks
    told: list[Observation] = field(default_factory=list)

    async def poll(self, targets: Sequence[Target] = NODES) -> None:
        ticket = self.hearing.ticket()
        answer = await self.edge.ask(None, "web", 1.0)
        seen = [
            observed(t, MODE, s, 1, 1) for t, s in zip(targets, said(targets, answer), strict=True)
        ]
        self.hearing.polled(ticket, WEB, answer, seen)

    def watch(self, targets: Sequence[Target] = NODES) -> None:
        self.hearing.listen("w", targets, MODE, 600.0, self.told.extend, WEB)

    def hear(self, text: str, *, trusted: bool = True) -> None:
        self.hearing.hear("edge", f"<129>{text}".encode(), trusted=trusted)

    @property
    def brief(self) -> list[tuple[str, str, bool]]:
        return [(str(o.node_id), o.code, o.authoritative) for o in self.told]


@contextmanager
def place() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="yaffle-ev-") as folder:
        yield str(Path(folder) / "e")


def play(body: Callable[[Scene], Awaitable[None]], edge: Edge | None = None) -> Scene:
    """Run `body` with a watch that has been polled once."""
    edge = edge or Edge()
    with place() as path:
        section = {"balancers": {"edge": {"type": "haproxy", "socket": "/no", "events": path}}}
        configured = BalancerSettings.read(Section("x", section)).balancers
        hearing = EventChecks(configured, edge, VirtualClock())  # type: ignore[arg-type]
        scene = Scene(edge, hearing)

        async def run() -> None:
            scene.watch()
            await scene.poll()
            edge.asked.clear()
            await body(scene)
            hearing.ignore("w")

        run_virtual(run)
    return scene
