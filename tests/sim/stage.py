"""One simulated installation: a world, a store, engines that can be killed and frozen, operators."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from tests.sim.audit import Audit
from tests.sim.base import Base, base
from tests.sim.gates import (
    Gate,
    GatedClock,
    GatedFencer,
    GatedNotifier,
    GatedStore,
    StoreWeather,
    gated,
)
from tests.verbs import Verbs

from yaffle.config import BudgetSettings, BudgetsSettings, EngineSettings
from yaffle.drivers.detectors.backend.status import StatusDetector
from yaffle.engine.detection import cluster_snapshot
from yaffle.engine.engine import Engine
from yaffle.engine.runtime.context import Drivers, EngineContext, Signals, limits
from yaffle.engine.runtime.disk_space import DiskSpace
from yaffle.engine.runtime.metrics import Metrics
from yaffle.model.ids import NodeId
from yaffle.policy import parse_document
from yaffle.ports import DriverContext
from yaffle.store import catalog
from yaffle.testing import (
    FaultPlan,
    ForeseeingProfile,
    ForgetfulProfile,
    ScriptedDetector,
    ScriptedFencer,
    ScriptedNotifier,
    ScriptedProfile,
    VirtualClock,
    World,
)

SETTINGS = EngineSettings(lease=20.0, poll=4.0, action_timeout=120.0, update_timeout=600.0)
BUDGETS = BudgetsSettings(
    total=BudgetSettings(max_in_flight=3, burst=5, per_hour=720),
    project=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    domain=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    host=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    cluster=BudgetSettings(max_in_flight=3, burst=4, per_hour=600),
)


def policy(**changed: Any) -> dict[str, Any]:
    """A small and fast 1.3 document; `changed` replaces keys of its recovery and detection."""
    detection: dict[str, Any] = {
        "interval": 5,
        "node_update_timeout": 10,
        "recovery_conditional": "ANY_FAILED",
        "rise": 1,
        "fall": 2,
        "detection_modes": [
            {"type": "NODE_STATUS_POLLING"},
            {
                "type": "NODE_STATUS_POLL_URL",
                "options": {"poll_url": "http://{node_ip}/", "poll_url_retry_limit": 1},
            },
        ],
    }
    recovery: dict[str, Any] = {
        "fencing": ["COMPUTE"],
        "node_delete_timeout": 20,
        "actions": [{"name": "REBOOT", "timeout": 30}, {"name": "RECREATE", "timeout": 60}],
        "limits": {"max_unhealthy": "60%", "max_in_flight": 2},
        "retry": {"attempts": 3, "backoff": 5, "max_backoff": 20, "stable_after": 60},
    }
    for key, value in changed.items():
        (detection if key in detection else recovery)[key] = value
    return {
        "type": "senlin.policy.health",
        "version": "1.3",
        "properties": {"detection": detection, "recovery": recovery},
    }


@dataclass(slots=True, kw_only=True, eq=False)
class Life:
    """One process that runs an engine."""

    engine: Engine
    ctx: EngineContext
    gate: Gate
    task: asyncio.Task[None] | None = None

    async def kill(self) -> None:
        """As SIGKILL: nothing more reaches the store or a driver."""
        self.gate.dead = True
        self.gate.thaw()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task], timeout=60)


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    rng: random.Random
    base: Base
    clock: VirtualClock
    world: World
    plan: FaultPlan
    store: Any
    notifier: ScriptedNotifier
    weather: StoreWeather
    profile: ScriptedProfile
    group: asyncio.TaskGroup
    alone: bool = True
    room: DiskSpace = field(default_factory=DiskSpace)
    """Of the engines that are started from now on."""
    max_in_flight: int = 2
    budgets: BudgetsSettings = BUDGETS
    lives: list[Life] = field(default_factory=list)
    blind_since_s: float | None = None
    blind_bound_s: float = 20.0
    condemns_hung: bool = True
    """Whether the policy takes a node that runs but serves nobody for unhealthy."""
    audit: Audit = field(init=False)
    ctx: EngineContext = field(init=False)
    """The operator's, at no gate."""
    commands: Verbs = field(init=False)

    def __post_init__(self) -> None:
        self.audit = Audit(self)
        gate = Gate()
        detector = ScriptedDetector(self.world, self.plan)
        drivers = Drivers(
            profiles={self.profile.type: self.profile},
            detectors=dict.fromkeys(("NODE_STATUS_POLLING", "NODE_STATUS_POLL_URL"), detector),
            fencers={"COMPUTE": ScriptedFencer(self.world, self.plan)},
        )
        self.ctx = self._ctx(gate, drivers)
        self.commands = Verbs(self.ctx)

    # --- engines ---------------------------------------------------------------------------------

    def start(self) -> Life:
        """Start an engine process."""
        gate = Gate()
        box: list[Life] = []

        def check(kind: str, operation_id: str, target: Any) -> None:
            self.audit.call(box[0], kind, operation_id, target)

        profile = gated(self.profile, gate, check)
        profiles = {profile.type: profile}
        detectors = {
            "NODE_STATUS_POLLING": StatusDetector(
                DriverContext(
                    clock=GatedClock(self.clock, gate),
                    state_dir=None,  # type: ignore[arg-type] # it keeps nothing
                    profiles=profiles,  # type: ignore[arg-type]
                )
            ),
            "NODE_STATUS_POLL_URL": ScriptedDetector(self.world, self.plan),
        }
        drivers = Drivers(
            profiles=profiles,  # type: ignore[arg-type]
            detectors=detectors,  # type: ignore[arg-type]
            fencers={"COMPUTE": GatedFencer(ScriptedFencer(self.world, self.plan), gate, check)},
            notifiers={"told": GatedNotifier(self.notifier, gate)},
        )
        ctx = self._ctx(gate, drivers)
        life = Life(engine=Engine(ctx), ctx=ctx, gate=gate)
        box.append(life)
        # A process of its own, even where another one's task asks for it.
        name = f"engine {len(self.lives)}"
        life.task = self.group.create_task(self._live(life), name=name, context=Context())
        self.lives.append(life)
        return life

    async def _live(self, life: Life) -> None:
        life.gate.enter()
        try:
            await life.engine.run()
        except BaseExceptionGroup as group:
            # Being killed between two awaits may surface as an error of the dying; nobody sees it.
            if not life.gate.dead or self.audit.broken:
                raise group from None

    @property
    def living(self) -> list[Life]:
        return [n for n in self.lives if not n.gate.dead]

    def _ctx(self, gate: Gate, drivers: Drivers) -> EngineContext:
        return EngineContext(
            store=GatedStore(self.store, gate, self.weather, self.audit.written),  # type: ignore[arg-type]
            clock=GatedClock(self.clock, gate),
            drivers=drivers,
            settings=SETTINGS,
            budgets=limits(self.budgets),
            signals=Signals(),
            rng=random.Random(self.rng.random()),
            new_id=self.new_id,
            host="sim",
            pid=len(self.lives),
            metrics=Metrics(),
            alone=self.alone,
            notify=("told",),
            room=self.room,
        )

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def limit_of(self, key: str) -> BudgetSettings:
        return self.budgets.total if key == "all" else self.budgets.cluster

    # --- what there is -----------------------------------------------------------------------------

    async def build(
        self, size: int, document: Mapping[str, Any], name: str = "web", create_s: float = 3.0
    ) -> str:
        """Create a cluster under a policy and wait until it is well."""
        await self.commands.create_policy(
            f"policy-{name}", parse_document(document), source="", by="sim"
        )
        await self.commands.create_profile(
            f"profile-{name}", self.profile.type, {"create_s": create_s}, by="sim"
        )
        ident = await self.commands.create_cluster(
            name, f"profile-{name}", size, by="sim", policy=f"policy-{name}"
        )
        await self.until(self.all_well, 120, "the cluster was built")
        return ident

    async def nodes(self) -> list[Any]:
        return list(await self.store.read(catalog.nodes_of))

    def node_ids(self) -> list[NodeId]:
        return sorted(self.world.copies)

    async def all_well(self) -> bool:
        rows = await self.nodes()
        return all(
            n.status == "ACTIVE" and n.health == "healthy" and self.world.serving(n.id)
            for n in rows
        )

    async def until(self, condition: Any, within_s: float, what: str) -> None:
        """Wait in virtual time until `await condition()` is true."""
        end_s = self.clock.monotonic_s() + within_s
        while not await condition():
            self.audit.copies()
            assert self.clock.monotonic_s() < end_s, (
                f"not within {within_s:g} s: {what}\n{await self.picture()}"
            )
            await self.clock.sleep(1.0)

    async def picture(self) -> str:
        """What a person would want to see when a run failed."""
        from yaffle.store import actions

        lines = [f"at {self.clock.monotonic_s():.1f} s, {len(self.living)} engine(s)"]
        for n in await self.nodes():
            copies = [(c.physical_id, c.serving) for c in self.world.alive(n.id)]
            lines.append(
                f"{n.name} {n.id[:8]} {n.status} {n.health} phys={n.physical_id} copies={copies}"
                f" attempts={n.attempts} exhausted={n.exhausted_us} mark={n.mark_reason}"
                f" {n.status_reason[:160]}"
            )
        lines += [
            f"{a.action} {a.node_id} {a.status} epoch={a.epoch} {a.status_reason}"
            for a in await self.store.read(actions.unfinished)
        ]
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def stage(
    seed: int,
    *,
    forgetful: bool = False,
    careful: bool = False,
    alone: bool = True,
    foreseeing: bool = False,
    budgets: BudgetsSettings = BUDGETS,
) -> AsyncIterator[Stage]:
    """Set up everything; at the end every engine is killed and the promises are asked once more."""
    # Ids come from the seed, so another test's document may have had the same one.
    cluster_snapshot._PARSED.clear()
    rng = random.Random(seed)
    kept = base()
    kept.begin_anew()
    clock = kept.clock
    world = World(clock=clock)
    plan = FaultPlan(clock, rng=random.Random(rng.random()))
    kind = ForgetfulProfile if forgetful else ScriptedProfile
    if foreseeing:
        kind = ForeseeingProfile
    async with asyncio.TaskGroup() as group:
        made = Stage(
            rng=rng,
            base=kept,
            clock=clock,
            world=world,
            plan=plan,
            store=kept.store(),
            notifier=ScriptedNotifier(clock, plan),
            weather=StoreWeather(random.Random(rng.random())),
            profile=kind(world, plan, careful=careful),
            group=group,
            alone=alone,
            budgets=budgets,
        )
        try:
            yield made
            made.audit.copies()
        finally:
            for life in made.living:
                await life.kill()
    assert not made.audit.broken, made.audit.broken
