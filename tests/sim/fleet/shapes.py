"""What an installation may look like: a few dozen shapes drawn at random, each built once and kept.

Building a cluster takes longer than the trouble that a world is about. So a shape is built by a real
engine in calm weather, in virtual time of its own, and worlds of that shape begin with a copy.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from yaffle.config import BudgetSettings, BudgetsSettings, EngineSettings
from yaffle.model.policy import HealthPolicy
from yaffle.policy import ParsedPolicy, parse_document
from yaffle.testing import run_virtual
from yaffle.testing.clock import EPOCH_US
from yaffle.testing.world import Copy, World

DRAWN = 24
GRACE_S = 30.0
BUILT_WITHIN_S = 3600.0
SETTINGS = EngineSettings(lease=12.0, poll=4.0, action_timeout=60.0)
BUDGETS = BudgetsSettings(
    total=BudgetSettings(max_in_flight=3, burst=6, per_hour=720),
    project=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    domain=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    host=BudgetSettings(max_in_flight=10, burst=20, per_hour=3600),
    cluster=BudgetSettings(max_in_flight=3, burst=4, per_hour=600),
)
STATUS = {"type": "NODE_STATUS_POLLING"}
URL = {
    "type": "NODE_STATUS_POLL_URL",
    "options": {"poll_url": "http://{node_ip}/", "poll_url_retry_limit": 1},
}
LADDERS: list[list[dict[str, Any]]] = [
    [{"name": "REBOOT", "timeout": 10}, {"name": "RECREATE", "timeout": 30}],
    [{"name": "RECREATE", "timeout": 30}],
    [
        {"name": "REBOOT", "timeout": 8, "params": {"type": "SOFT"}},
        {"name": "REBUILD", "timeout": 15},
        {"name": "RECREATE", "timeout": 30},
    ],
    [{"name": "REBOOT", "timeout": 15}],
]


BOTH = [STATUS, URL]
CHOSEN: list[tuple[int, int, list[dict[str, Any]], int]] = [
    (4, 1, BOTH, 1),
    (3, 1, [URL], 2),
    (1, 5, BOTH, 1),
    (2, 3, BOTH, 2),
    (3, 4, [URL], 1),
    (1, 12, BOTH, 2),
]
"""Shapes that chance seldom draws: clusters, members, modes, `fall`. Nothing holds them but what has to:
all may be sick at once, and any mode suffices."""
UNFENCED, FORGETFUL = 26, 27
SHAPES = DRAWN + len(CHOSEN)


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """One cluster and the policy that it is under."""

    name: str
    size: int
    document: dict[str, Any]
    create_s: float
    parsed: ParsedPolicy

    @property
    def health(self) -> HealthPolicy:
        """The policy as the engine reads it."""
        return self.parsed.policy


@dataclass(slots=True)
class Shape:
    """Clusters, before any trouble; `stored` and `copies` are how a world begins."""

    number: int
    clusters: tuple[ClusterShape, ...]
    careful: bool
    forgetful: bool = False
    """Whether its backend does again what is submitted again."""
    stored: bytes = b""
    copies: tuple[tuple[str, str, str], ...] = ()
    """Node, physical id, made by."""
    idents: dict[str, str] = field(default_factory=dict)
    """Ids of the clusters by name."""
    built_s: float = 0.0
    """How far the database's clock had come."""

    def furnish(self, world: World) -> None:
        """Put the copies into a world that is about to begin."""
        for node_id, physical_id, made_by in self.copies:
            world.copies[node_id].append(  # type: ignore[index]
                Copy(
                    node_id=node_id,  # type: ignore[arg-type]
                    physical_id=physical_id,
                    made_by=made_by,
                    started_s=0.0,
                    spec={"create_s": 2.0, "delete_s": 1.0, "reboot_s": 1.0, "answer_s": 0.02},
                )
            )
            world._numbers[node_id] += 1  # type: ignore[index]


def document(rng: random.Random) -> dict[str, Any]:
    """A policy such as people write, in one of the versions there are."""
    if rng.random() < 0.3:
        return old_document(rng)
    interval = rng.choice([2, 3, 5])
    fall = rng.randint(1, 3)
    actions = rng.choice(LADDERS)
    return {
        "type": "senlin.policy.health",
        "version": "1.3",
        "properties": {
            "detection": {
                "interval": interval,
                "node_update_timeout": max(6, interval * fall),
                "recovery_conditional": rng.choice(["ANY_FAILED", "ANY_FAILED", "ALL_FAILED"]),
                "rise": rng.randint(1, 2),
                "fall": fall,
                "detection_modes": rng.choice([[STATUS, URL], [STATUS, URL], [STATUS], [URL]]),
            },
            "recovery": {
                "mode": "observe" if rng.random() < 0.12 else "recover",
                "fencing": rng.choice([["COMPUTE"], ["COMPUTE"], []]),
                "node_delete_timeout": 10,
                "node_force_recreate": rng.random() < 0.15,
                "actions": actions,
                "limits": {
                    "max_unhealthy": rng.choice(["40%", "60%", "100%"]),
                    "when_exceeded": rng.choice(["hold", "slow"]),
                    "max_in_flight": rng.choice([1, 1, 2]),
                },
                "retry": {"attempts": 2, "backoff": 5, "max_backoff": 10, "stable_after": 40},
            },
        },
    }


def old_document(rng: random.Random) -> dict[str, Any]:
    """As Senlin's users have them: no guards are written, the defaults hold."""
    interval = rng.choice([2, 3, 5])
    fencing = {"fencing": ["COMPUTE"]} if rng.random() < 0.6 else {}
    actions = [{"name": rng.choice(["REBOOT", "REBUILD", "RECREATE"])}]
    if rng.random() < 0.4:
        detection: dict[str, Any] = {
            "type": "NODE_STATUS_POLLING",
            "options": {"interval": interval},
        }
        return {
            "type": "senlin.policy.health",
            "version": "1.0",
            "properties": {"detection": detection, "recovery": {"actions": actions, **fencing}},
        }
    return {
        "type": "senlin.policy.health",
        "version": rng.choice(["1.1", "1.2"]),
        "properties": {
            "detection": {
                "interval": interval,
                "node_update_timeout": 8,
                "recovery_conditional": rng.choice(["ANY_FAILED", "ALL_FAILED"]),
                "detection_modes": rng.choice([[STATUS, URL], [STATUS], [URL]]),
            },
            "recovery": {"actions": actions, "node_delete_timeout": 10, **fencing},
        },
    }


def generous(modes: list[dict[str, Any]], fall: int, number: int) -> dict[str, Any]:
    """A policy that trusts any mode, and heals whatever fails."""
    ladders = [LADDERS[1], LADDERS[0], LADDERS[1]]
    return {
        "type": "senlin.policy.health",
        "version": "1.3",
        "properties": {
            "detection": {
                "interval": 2 + number % 2,
                "node_update_timeout": 20,
                "recovery_conditional": "ANY_FAILED",
                "rise": 1,
                "fall": fall,
                "detection_modes": modes,
            },
            "recovery": {
                "fencing": [] if number == UNFENCED else ["COMPUTE"],
                "node_delete_timeout": 10,
                "actions": ladders[number % 3],
                "limits": {"max_unhealthy": "100%", "when_exceeded": "hold", "max_in_flight": 3},
                "retry": {"attempts": 2, "backoff": 3, "max_backoff": 6, "stable_after": 40},
            },
        },
    }


def chosen(number: int) -> Shape:
    """Return one of CHOSEN, not built yet."""
    count, size, modes, fall = CHOSEN[number - DRAWN]
    drawn = generous(modes, fall, number)
    parsed = parse_document(drawn)
    every = [ClusterShape(f"web{index}", size, drawn, 2.0, parsed) for index in range(count)]
    return Shape(number, tuple(every), careful=False, forgetful=number == FORGETFUL)


@lru_cache(maxsize=SHAPES)
def shape(number: int) -> Shape:
    """Return a shape, built."""
    made = chosen(number) if number >= DRAWN else drawn_shape(number)
    run_virtual(lambda: _build(made), seed=number, cpu_s=120)
    return made


def drawn_shape(number: int) -> Shape:
    """Return one that chance has drawn, not built yet."""
    rng = random.Random(number)
    count = rng.choice([1, 1, 1, 2, 2, 3])
    clusters = []
    for index in range(count):
        size = rng.choice([2, 3, 3, 4, 5]) if count > 1 else rng.choice([2, 3, 4, 5, 6, 8, 12])
        while True:
            drawn = document(rng)
            try:
                parsed = parse_document(drawn)
            except Exception:  # noqa: BLE001 - a policy that is refused is drawn again
                continue
            break
        clusters.append(ClusterShape(f"web{index}", size, drawn, 2.0, parsed))
    return Shape(number, tuple(clusters), careful=rng.random() < 0.2)


async def _build(made: Shape) -> None:
    from tests.sim.fleet.fleet import Fleet

    async with asyncio.TaskGroup() as group:
        fleet = Fleet(made, random.Random(f"shape {made.number}"), group)
        fleet.base.restore(fleet.base.empty)
        fleet.base.clock.stepped_s = 0.0
        life = fleet.start()
        kind = life.ctx.drivers.profiles
        for cluster in made.clusters:
            name = cluster.name
            await fleet.commands.create_policy(f"p-{name}", cluster.parsed, source="", by="sim")
            await fleet.commands.create_profile(
                f"f-{name}", next(iter(kind)), {"create_s": cluster.create_s}, by="sim"
            )
            made.idents[name] = await fleet.commands.create_cluster(
                name, f"f-{name}", cluster.size, by="sim", policy=f"p-{name}"
            )
        wanted = sum(c.size for c in made.clusters)
        while not _well(fleet, wanted):
            if fleet.referee.broken or fleet.now_s > BUILT_WITHIN_S:
                raise AssertionError(f"calm weather: {fleet.referee.broken or 'never well'}")
            await fleet.base.clock.sleep(1.0)
        assert life.task is not None
        life.task.cancel()
        await asyncio.wait([life.task])
        # Nobody was there for a while: past every grace.
        fleet.base.raw.execute("update nodes set grace_us = null")
        fleet.base.clock.stepped_s += GRACE_S
        made.stored = fleet.base.save()
        made.built_s = (fleet.base.clock.now_us() - EPOCH_US) / 1e6
        made.copies = tuple(
            (ident, copy.physical_id, copy.made_by)
            for ident in fleet.node_ids()
            for copy in fleet.world.alive(ident)
        )


def _well(fleet: Any, wanted: int) -> bool:
    rows = fleet.nodes()
    return len(rows) == wanted and all(
        n.status == "ACTIVE" and n.health == "healthy" and fleet.world.serving(n.id) for n in rows
    )
