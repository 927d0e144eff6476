"""Watched nodes by the thousand for benches: rows made at once, answers that cost nothing, failures.

A node is a number: `n17` is the byte 17 of a file that every process maps, 0 while it is well. So a
bench kills and revives nodes of engines in other processes, and a recovery heals them for all.
"""

from __future__ import annotations

import asyncio
import mmap
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sqlalchemy import Connection, insert

from yaffle.model.health import Observation, Outcome
from yaffle.model.operations import (
    Operation,
    OperationSpec,
    Progress,
    ProgressState,
    Promise,
    Reading,
    Target,
)
from yaffle.model.policy import DetectionMode
from yaffle.policy import parse
from yaffle.store.tables import bindings, clusters, nodes, policies, profiles

POLICY = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: {interval:g}
    node_update_timeout: 60
    rise: 1
    fall: {fall}
    detection_modes: [{mode}]
  recovery:
    mode: {word}
    actions: [{{name: REBOOT, timeout: 120}}]
    fencing: [COMPUTE]
    limits: {{max_unhealthy: {unhealthy}, max_in_flight: {in_flight}}}
"""
STATUS = "{type: NODE_STATUS_POLLING}"
BATCH = 1000


def document(
    *, interval: float, fall: int = 2, word: str = "observe", mode: str = STATUS,
    unhealthy: str = "100%", in_flight: int = 100,
):  # fmt: skip
    """Return a parsed policy."""
    return parse(
        POLICY.format(
            interval=interval, fall=fall, word=word, mode=mode,
            unhealthy=unhealthy, in_flight=in_flight,
        )
    )  # fmt: skip


def fill(
    conn: Connection, count: int, parsed, *, each: int = BATCH, first: int = 0,
    attributes: dict[str, object] | None = None,
) -> None:  # fmt: skip
    """Store a profile, a policy and clusters of `each` nodes that are healthy already."""
    now_us = time.time_ns() // 1000
    profile, policy = str(uuid.uuid4()), str(uuid.uuid4())
    conn.execute(
        insert(profiles).values(id=profile, name="p", type="bench-1.0", spec={}, created_us=now_us)
    )
    kind = f"senlin.policy.health-{parsed.policy.version}"
    conn.execute(
        insert(policies).values(
            id=policy, name="h", type=kind, spec=parsed.document, created_us=now_us
        )
    )
    for begin in range(first, first + count, each):
        size = min(each, first + count - begin)
        cluster = str(uuid.uuid4())
        conn.execute(
            insert(clusters).values(
                id=cluster, name=f"c{begin}", profile_id=profile, desired_capacity=size,
                status="ACTIVE", created_us=now_us,
            )
        )  # fmt: skip
        conn.execute(
            insert(bindings).values(
                id=str(uuid.uuid4()), cluster_id=cluster, policy_id=policy, policy_type=kind,
                created_us=now_us,
            )
        )  # fmt: skip
        rows = [
            {
                "id": str(uuid.uuid4()), "name": f"n{begin + n}", "cluster_id": cluster,
                "index": n, "profile_id": profile, "physical_id": f"p{begin + n}",
                "status": "ACTIVE", "health": "healthy", "backend_status": "ACTIVE",
                "attributes": attributes or {}, "created_us": now_us,
            }
            for n in range(size)
        ]  # fmt: skip
        for start in range(0, size, BATCH):
            conn.execute(insert(nodes), rows[start : start + BATCH])


class Flags:
    """Which nodes are down, seen by every process that maps the same file."""

    def __init__(self, path: Path, count: int = 0) -> None:
        if count:
            path.write_bytes(bytes(count))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def down(self, number: int) -> bool:
        """Whether a node is down."""
        return self._map[number] != 0

    def set(self, number: int, *, down: bool) -> None:
        """Kill or revive a node."""
        self._map[number] = down


class Instant:
    """Answers at once for any number of nodes: what is measured is ours."""

    type = "NODE_STATUS_POLLING"

    def __init__(self, flags: Flags | None = None) -> None:
        self._flags = flags
        """None: every node is well, whatever it is called."""
        self._numbers: dict[str, int] = {}
        self.answers = 0

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Answer for all, in order."""
        now_us = time.time_ns() // 1000
        self.answers += len(targets)
        return [self._one(t, mode.key, now_us) for t in targets]

    def _one(self, target: Target, key, now_us: int) -> Observation:
        down = self._flags is not None and self._flags.down(self._number(target))
        return Observation(
            node_id=target.node_id,
            mode=key,
            outcome=Outcome.FAIL if down else Outcome.PASS,
            code="ST-GONE" if down else "ST-UP",
            detail="gone" if down else "up",
            at_us=now_us,
            answered=True,
            backend_status="GONE" if down else "ACTIVE",
        )

    def _number(self, target: Target) -> int:
        number = self._numbers.get(target.node_id)
        if number is None:
            number = self._numbers[target.node_id] = int(target.name[1:])
        return number


class Reboots:
    """A backend whose reboot takes a while and heals the node."""

    type = "bench-1.0"
    promises = frozenset({Promise.DEDUPLICATES})
    operations: ClassVar = {"REBOOT": OperationSpec(description="", in_place=True)}
    schema: ClassVar = {}

    def __init__(self, flags: Flags, takes_s: float) -> None:
        self._flags, self._takes_s = flags, takes_s

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each is."""
        return [
            Reading(exists=up, up=up, backend_status="ACTIVE" if up else "GONE", detail="")
            for up in (not self._flags.down(int(t.name[1:])) for t in targets)
        ]

    async def submit(self, op: Operation, *, operation_id: str, deadline_s: float) -> Progress:
        """Heal after a while."""
        await asyncio.sleep(self._takes_s)
        self._flags.set(int(op.target.name[1:]), down=False)
        return Progress(state=ProgressState.DONE, detail="rebooted")

    poll = submit
