"""One watch: which of its nodes are asked, and for which the silence of the backend is answer enough.

The order is that of every informer: list, then listen, and list again now and then. A node is
*vouched for* while its last reading said up, was begun after the last gap in what we hear, and
nothing has been heard of it since; then each interval says EV-QUIET. Every other node is read every
interval, and all are every `sweep_s`. What cannot be heard is asked for: while a broker is away
nobody is vouched for.

Answers overtake each other: a reading carries the ticket it was begun with, and one that is older
than what was applied last says nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from yaffle.drivers.detectors.lifecycle.channel_health import ChannelHealth
from yaffle.drivers.detectors.lifecycle.messages import Heard
from yaffle.drivers.detectors.lifecycle.reading import Found, Reader
from yaffle.integrations.batch_read import observation
from yaffle.integrations.tracing import Memo
from yaffle.model.health import Observation, Outcome
from yaffle.model.operations import Actor, Target
from yaffle.model.policy import DetectionMode
from yaffle.model.timing import JITTER, status_check_s

if TYPE_CHECKING:
    from yaffle.model.ids import NodeId
    from yaffle.ports.clock import Clock
    from yaffle.ports.detector import Sink

SWEEP_S: Final = 600.0
"""Where a policy does not say."""
SLICE: Final = 100
"""Observations that go to the sink before others have their turn."""
HEARD_S: Final = 300.0
"""How long what was heard waits for an answer that says more than "unclear"."""
MEMO_S: Final = 60.0
"""How long a cause holds while nobody would tell us that it has changed."""
_QUIET: Final = "read as running, and nothing was heard of it since"
_ASKABLE: Final = frozenset({Actor.USER, Actor.NOBODY})
"""Causes that stay what they are while nothing happens."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One node of one watch, and what is known of it."""

    watch: Watch
    target: Target
    up: bool = False
    word: str = ""
    era: int = -1
    """That of `ChannelHealth` in which the last reading was begun; -1 before the first."""
    read_s: float = 0.0
    ticket: int = 0
    """Of the newest reading that was applied."""
    heard: Heard | None = None
    """What was heard of it and not answered by a reading yet."""
    heard_s: float = 0.0
    waking: bool = False
    """Whether a reading because of that is under way."""
    memo: Memo | None = None
    host: str = ""
    """As last heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A reading under way: what it is about and when it was begun."""

    node: Node
    heard: Heard | None
    ticket: int
    era: int
    forgets: int
    began_s: float
    memo: Memo | None


class Watch:
    """Keeps the pace of one watch until its task is cancelled."""

    def __init__(
        self, ident: str, *, clock: Clock, reader: Reader, channels: ChannelHealth, rng: Random
    ) -> None:
        self.ident = ident
        self.nodes: dict[NodeId, Node] = {}
        self.task: asyncio.Task[None] | None = None
        self._clock, self._reader, self._channels, self._rng = clock, reader, channels, rng
        self._wakeup = asyncio.Event()
        self._forgets = 0
        self._live = True
        self._swept_s = clock.monotonic_s()

    # --- what the engine says ------------------------------------------------------------------

    def aim(
        self, targets: Sequence[Target], mode: DetectionMode, interval_s: float, sink: Sink
    ) -> None:
        """Watch these targets from now on; what is known of the same copies is kept."""
        self.mode, self.interval_s, self.sink = mode, interval_s, sink
        before = self.nodes
        self.nodes = {}
        for target in targets:
            node = before.get(target.node_id)
            if node is None or node.target.physical_id != target.physical_id:
                node = Node(watch=self, target=target)
            node.target = target
            self.nodes[target.node_id] = node
        self.ring()

    def forget(self) -> None:
        """Ask about every node again; what is being read now was begun too early to count."""
        self._forgets += 1
        for node in self.nodes.values():
            node.era = -1
        self.ring()

    def ring(self) -> None:
        """Look at once whether anybody has to be read."""
        self._wakeup.set()

    def end(self) -> None:
        """Say no more."""
        self._live = False
        if self.task is not None:
            self.task.cancel()

    # --- its own pace --------------------------------------------------------------------------

    async def run(self) -> None:
        """Read and vouch for ever; a backend that takes its time delays no vouching."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_vouching(), name=f"vouch {self.ident}")
            group.create_task(self._keep_reading(), name=f"read {self.ident}")

    async def _keep_vouching(self) -> None:
        while True:
            await self._clock.sleep(self._pause_s())
            await self.tell(self._quiet())

    async def _keep_reading(self) -> None:
        next_s = self._clock.monotonic_s()
        while True:
            self._wakeup.clear()
            now_s = self._clock.monotonic_s()
            if now_s >= next_s:
                next_s = now_s + self._pause_s()
            if due := self._due():
                await self.tell(await self.read(due))
            # Even a late one rests a little, so that a slow backend is not asked without a pause.
            await self._rest(max(next_s - self._clock.monotonic_s(), self.interval_s * JITTER))

    def _pause_s(self) -> float:
        return self.interval_s * self._rng.uniform(1 - JITTER, 1 + JITTER)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
        except TimeoutError:
            return

    def _due(self) -> list[Node]:
        """Return whom to read now: all for a sweep, else those that nobody vouches for."""
        now_s = self._clock.monotonic_s()
        if now_s - self._swept_s >= self._sweep_s() * (1 - JITTER):
            self._swept_s = now_s
            return list(self.nodes.values())
        old_s = now_s - self.interval_s * (1 - JITTER)
        return [n for n in self.nodes.values() if self._is_due(n, old_s)]

    def _is_due(self, node: Node, old_s: float) -> bool:
        if node.waking:
            return False
        if node.era != self._channels.era:
            # Once after each gap; and then, as all that are not vouched for, at the interval's pace.
            return node.era < 0 or node.read_s <= old_s or self._channels.listening
        return node.read_s <= old_s and not (node.up and self._channels.listening)

    def _sweep_s(self) -> float:
        return SWEEP_S if self.mode.sweep_s is None else self.mode.sweep_s

    def vouched(self, node: Node) -> bool:
        """Whether silence means that the node is still up."""
        return node.up and node.heard is None and self.current(node)

    def current(self, node: Node) -> bool:
        """Whether we would have heard of whatever happened since the node was read."""
        return self._channels.listening and node.era == self._channels.era

    def _quiet(self) -> Iterator[Observation]:
        """Yield what silence says; not at once after a reading, which must not count twice."""
        at_us, late_s = self._clock.now_us(), self._clock.monotonic_s() - self.interval_s / 2
        for node in list(self.nodes.values()):
            if node.read_s <= late_s and self.vouched(node):
                row = "EV-QUIET", _QUIET, node.word
                yield observation(node.target, self.mode, row, at_us=at_us)

    async def tell(self, seen: Iterable[Observation]) -> None:
        """Hand observations to the engine, some at a time."""
        batch: list[Observation] = []
        for one in seen:
            batch.append(one)
            if len(batch) == SLICE:
                self._push(batch)
                batch = []
                await asyncio.sleep(0)
        self._push(batch)

    def _push(self, batch: Sequence[Observation]) -> None:
        if batch and self._live:
            self.sink(batch)

    # --- reading -------------------------------------------------------------------------------

    async def read(self, nodes: Sequence[Node]) -> Sequence[Observation]:
        """Read these nodes once and return what is still worth telling."""
        asks = [self.ask(node) for node in nodes]
        async with self._channels.turn(nodes[0].target.profile_type):
            found = await self._reader.read(
                [node.target for node in nodes],
                deadline_s=status_check_s(self.interval_s),
                memos=[ask.memo for ask in asks],
            )
        seen = (self.take(ask, one) for ask, one in zip(asks, found, strict=True))
        return [one for one in seen if one is not None]

    def ask(self, node: Node) -> Ask:
        """Note that the node is being read from now on."""
        now_s = self._clock.monotonic_s()
        if node.heard is not None and now_s - node.heard_s > HEARD_S:
            node.heard = None
        return Ask(
            node=node,
            heard=node.heard,
            ticket=self._channels.ticket(),
            era=self._channels.era,
            forgets=self._forgets,
            began_s=now_s,
            memo=self._remembered(node, now_s),
        )

    def _remembered(self, node: Node, now_s: float) -> Memo | None:
        """Return the cause that is known, if nothing can have changed it."""
        memo = node.memo
        if memo is None or node.heard is not None or memo.cause.actor not in _ASKABLE:
            return None
        # Where we might not hear of a change, only time can tell that there may have been one.
        holds_s = self._sweep_s() if self.current(node) else MEMO_S
        return memo if now_s - memo.at_s < holds_s else None

    def take(self, ask: Ask, found: Found) -> Observation | None:
        """Apply what a node was found to be; None where that is overtaken."""
        node = ask.node
        present = self.nodes.get(node.target.node_id) is node
        if not present or ask.forgets != self._forgets or ask.ticket < node.ticket:
            return None
        node.ticket, node.era, node.read_s = ask.ticket, ask.era, ask.began_s
        node.up = found.seen[0] == "ST-UP"
        node.word, node.memo = found.seen[2], found.memo
        if found.outcome is not Outcome.UNKNOWN and node.heard is ask.heard:
            node.heard = None
        return found.as_observation(node.target, self.mode, ask.heard)
