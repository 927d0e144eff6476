"""One simulated installation: a world, a database, and one to three engines that share them."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from tests.sim.base import Base, base
from tests.sim.fleet.hands import Hands, nothing
from tests.sim.fleet.ledger import Ledger
from tests.sim.fleet.looks import Look, Noted, notebook
from tests.sim.fleet.referee import Referee
from tests.sim.fleet.roads import Line, OwnClock, OwnPlan, OwnStore, View
from tests.sim.fleet.shapes import BUDGETS, SETTINGS, Shape
from tests.sim.gates import Gate, GatedFencer, GatedNotifier, GatedProfile
from tests.verbs import Verbs

from yaffle.drivers.detectors.backend.status import StatusDetector
from yaffle.engine.engine import Engine
from yaffle.engine.runtime.context import Drivers, EngineContext, Signals, limits
from yaffle.engine.runtime.metrics import Metrics
from yaffle.model.ids import NodeId
from yaffle.ports import DriverContext
from yaffle.testing import (
    FaultPlan,
    ForgetfulProfile,
    ScriptedDetector,
    ScriptedFencer,
    ScriptedNotifier,
    ScriptedProfile,
    World,
)

TRACE = 400


@dataclass(slots=True, eq=False)
class Life:
    """One process that runs an engine."""

    number: int
    gate: Gate
    clock: OwnClock
    view: View
    """Its road to the backend: status, acts, fences."""
    eyes: View
    """Its road to the nodes themselves: URLs."""
    plan: OwnPlan
    store: OwnStore
    ctx: EngineContext
    engine: Engine
    looks: dict[tuple[str, str], list[Look]] = field(default_factory=notebook)
    task: asyncio.Task[None] | None = None
    wrote_s: float = -1.0
    """When it last heard of a commit of its own."""
    held: bool = False
    """Whether some trouble waits for it to come to a point, or has frozen it: one at a time."""
    missed_s: float = -1e9
    """When it last went on after a freeze, or its clock jumped: long enough to notice."""
    lost_s: dict[str, float] = field(default_factory=dict)
    """When a watch was last told that the database is away, by cluster."""
    upset_s: float = -1e9
    """When any of its watches may have begun anew."""
    sane_since_s: float = 0.0
    """Since when nothing has been wrong with it: alive, awake, with a database."""

    def __str__(self) -> str:
        return f"engine {self.number}"

    @property
    def able(self) -> bool:
        """Whether it could watch: it runs, and the database is there for it."""
        lines = (self.store.fleet.line, self.store.line)
        hindered = any(
            line.away or line.stall_s or line.answers_late_s or line.loses_answers for line in lines
        )
        return not (self.gate.dead or self.gate.frozen or hindered)


@dataclass(slots=True, eq=False)
class Fleet:
    """Everything that there is in one world."""

    shape: Shape
    rng: random.Random
    group: asyncio.TaskGroup
    base: Base = field(default_factory=base)
    world: World = field(init=False)
    plan: FaultPlan = field(init=False)
    line: Line = field(default_factory=Line)
    notifier: ScriptedNotifier = field(init=False)
    referee: Referee = field(init=False)
    ledger: Ledger = field(init=False)
    lied: bool = False
    """Whether anything ever said the opposite of the truth."""
    fooled: bool = False
    """Whether a clock was ever wrong."""
    fooled_s: float = 0.0
    """By how much all clocks were ever set: a purse fills by the clock of whoever looks into it."""
    stalled: bool = False
    """Whether the database ever kept anybody waiting."""
    hung_s: dict[str, float] = field(default_factory=dict)
    """When each node was last made to hang."""
    lives: list[Life] = field(default_factory=list)
    commands: Verbs = field(init=False)
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=TRACE))
    profile: ScriptedProfile = field(init=False)
    _drawn: random.Random = field(init=False)

    def __post_init__(self) -> None:
        clock = self.base.clock
        self._drawn = random.Random(self.rng.random())
        self.world = World(clock=clock)
        self.plan = FaultPlan(clock, rng=random.Random(self.rng.random()))
        self.notifier = ScriptedNotifier(clock, self.plan)
        self.referee = Referee(self)
        self.ledger = Ledger(self)
        gate = Gate()
        profile = self._backend(self.world, self.plan)
        detector = ScriptedDetector(self.world, self.plan)
        drivers = Drivers(
            profiles={profile.type: profile},
            detectors=dict.fromkeys(("NODE_STATUS_POLLING", "NODE_STATUS_POLL_URL"), detector),
            fencers={"COMPUTE": ScriptedFencer(self.world, self.plan)},
        )
        store = OwnStore(self, None, self.base.store(), gate)
        self.commands = Verbs(self._ctx(store, OwnClock(clock, gate), drivers, 0))

    # --- engines -------------------------------------------------------------------------------

    def start(self) -> Life:
        """Start an engine process."""
        number = len(self.lives) + 1
        gate = Gate()
        clock = OwnClock(self.base.clock, gate)
        view: Any = View(self.world)
        eyes: Any = View(self.world)
        plan = OwnPlan(self.base.clock, self.plan)
        store = OwnStore(self, None, self.base.store(), gate)
        profile: Any = GatedProfile(self._backend(view, plan), gate, nothing)
        detectors: dict[str, Any] = {}
        fencer: Any = GatedFencer(ScriptedFencer(view, plan), gate, nothing)
        notifier: Any = GatedNotifier(self.notifier, gate)
        profiles: dict[str, Any] = {}
        fencers: dict[str, Any] = {}
        drivers = Drivers(
            profiles=profiles, detectors=detectors, fencers=fencers, notifiers={"told": notifier}
        )
        ctx = self._ctx(store, clock, drivers, number)
        life = Life(number, gate, clock, view, eyes, plan, store, ctx, Engine(ctx))
        profiles[profile.type] = Hands(profile, life)
        fencers["COMPUTE"] = Hands(fencer, life)
        life.sane_since_s = clock.monotonic_s()
        context = DriverContext(clock=clock, state_dir=None, profiles=drivers.profiles)  # type: ignore[arg-type]
        detectors["NODE_STATUS_POLLING"] = Noted(StatusDetector(context), life)
        detectors["NODE_STATUS_POLL_URL"] = Noted(ScriptedDetector(eyes, plan), life)
        store.life = life
        self.lives.append(life)
        life.task = self.group.create_task(self._live(life), name=str(life), context=Context())
        self.note(f"{life} starts")
        return life

    def _backend(self, world: Any, plan: FaultPlan) -> ScriptedProfile:
        kind = ForgetfulProfile if self.shape.forgetful else ScriptedProfile
        return kind(world, plan, careful=self.shape.careful)

    async def _live(self, life: Life) -> None:
        life.gate.enter()
        try:
            await life.engine.run()
        except BaseExceptionGroup as group:
            # Being killed between two awaits may surface as an error of the dying; nobody sees it.
            if not life.gate.dead or self.referee.broken:
                raise group from None

    async def kill(self, life: Life) -> None:
        """As SIGKILL: nothing more reaches the database or a driver."""
        self.note(f"{life} is killed")
        life.gate.dead = True
        life.gate.thaw()
        if life.task is not None:
            life.task.cancel()
            await asyncio.wait([life.task], timeout=60)

    @property
    def living(self) -> list[Life]:
        """The engines that were not killed; they may be frozen."""
        return [n for n in self.lives if not n.gate.dead]

    def _ctx(
        self, store: OwnStore, clock: OwnClock, drivers: Drivers, number: int
    ) -> EngineContext:
        return EngineContext(
            store=store,  # type: ignore[arg-type]
            clock=clock,
            drivers=drivers,
            settings=SETTINGS,
            budgets=limits(BUDGETS),
            signals=Signals(),
            rng=random.Random(self.rng.random()),
            new_id=self.new_id,
            host=f"sim-{number}",
            pid=number,
            metrics=Metrics(),
            alone=False,
            notify=("told",),
        )

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._drawn.getrandbits(128), version=4))

    # --- what there is -------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.base.clock.monotonic_s()

    def node_ids(self) -> list[NodeId]:
        return sorted(i for i in self.world.copies if i)

    def nodes(self) -> Sequence[Any]:
        return self.base.rows("select * from nodes order by name")

    def note(self, text: str) -> None:
        """Remember for whoever has to read what happened."""
        self.trace.append(f"{self.now_s:9.3f}  {text}")
