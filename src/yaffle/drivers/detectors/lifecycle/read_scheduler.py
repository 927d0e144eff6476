"""From events to readings: a thousand events become a few batches, and no node is read twice at once.

What waits to be read is a set of nodes and not a queue of events: it cannot grow beyond the nodes
that are watched, and any number of events about one node is one reading that is under way and one
after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from yaffle.integrations.batch_read import BATCH
from yaffle.model.timing import status_check_s

if TYPE_CHECKING:
    from yaffle.drivers.detectors.lifecycle.messages import Heard
    from yaffle.drivers.detectors.lifecycle.reading import Reader
    from yaffle.drivers.detectors.lifecycle.watch import Node, Watch
    from yaffle.model.health import Observation
    from yaffle.ports.clock import Clock

GATHER_S: Final = 0.05
"""How long the first event waits for company."""
BATCHES: Final = 4
"""Batches of one profile type that are under way at once: a slow one does not delay all."""


class Waker:
    """Reads the nodes that something was heard of; one for all watches, so that batches are full."""

    def __init__(self, clock: Clock, reader: Reader) -> None:
        self._clock, self._reader = clock, reader
        self._due: dict[int, Node] = {}
        self._wakeup = asyncio.Event()
        self._under_way: Counter[str] = Counter()

    def wake(self, node: Node, heard: Heard) -> None:
        """Let the node be read because of this; the newest word of what happened is the one told."""
        if node.heard is not None and node.heard.word and not heard.word:
            heard = replace(heard, word=node.heard.word, publisher=node.heard.publisher)
        node.heard = heard
        node.heard_s = self._clock.monotonic_s()
        if heard.host:
            node.host = heard.host
        self._due[id(node)] = node
        self._wakeup.set()

    def drop(self, nodes: Sequence[Node]) -> None:
        """These are watched no more."""
        for node in nodes:
            self._due.pop(id(node), None)

    async def run(self) -> None:
        """Read what is due until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wakeup.wait()
                await self._clock.sleep(GATHER_S)
                self._wakeup.clear()
                for kind, batch in self._batches():
                    self._under_way[kind] += 1
                    group.create_task(self._read(kind, batch), name=f"wake {len(batch)} {kind}")

    def _batches(self) -> list[tuple[str, Sequence[Node]]]:
        """Take what may be read now; the rest waits for a batch to end, which rings."""
        kinds: dict[str, list[Node]] = {}
        for node in self._due.values():
            if not node.waking:
                kinds.setdefault(node.target.profile_type, []).append(node)
        taken: list[tuple[str, Sequence[Node]]] = []
        for kind, nodes in kinds.items():
            for first in range(0, len(nodes), BATCH):
                if self._under_way[kind] + sum(k == kind for k, _ in taken) >= BATCHES:
                    break
                batch = nodes[first : first + BATCH]
                for node in batch:
                    node.waking = True
                    del self._due[id(node)]
                taken.append((kind, batch))
        return taken

    async def _read(self, kind: str, batch: Sequence[Node]) -> None:
        # What was heard since they were chosen is answered by this reading, and by no other.
        self.drop(batch)
        asks = [node.watch.ask(node) for node in batch]
        deadline_s = min(status_check_s(node.watch.interval_s) for node in batch)
        try:
            found = await self._reader.read(
                [node.target for node in batch],
                deadline_s=deadline_s,
                memos=[ask.memo for ask in asks],
            )
        finally:
            for node in batch:
                node.waking = False
            self._under_way[kind] -= 1
            if self._due:
                self._wakeup.set()
        seen: dict[Watch, list[Observation]] = {}
        for ask, one in zip(asks, found, strict=True):
            told = ask.node.watch.take(ask, one)
            if told is not None:
                seen.setdefault(ask.node.watch, []).append(told)
        for watch, readings in seen.items():
            await watch.tell(readings)
