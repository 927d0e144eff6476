"""One broker connection, kept for as long as anybody watches: connected, listening, or on its way back.

The queue is our own, exclusive and bounded: nothing is stolen from other listeners, and nothing
grows when we are away. What the broker drops because we are slow leaves a trace in a second queue,
of length one, so that a loss is noticed and everything is read. The exchanges belong to their
senders, who would be refused if we declared them otherwise than they do: we only bind to them.

Heartbeats notice a connection that is dead; a broker that is frozen keeps its connections. So every
`PULSE_S` the broker is asked something, and has `ANSWER_S` for it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final

import structlog
from pamqp import commands

from yaffle.drivers.detectors.lifecycle.amqp import Link, Refused, connected
from yaffle.drivers.detectors.lifecycle.messages import Heard, Ignored, read
from yaffle.drivers.detectors.lifecycle.settings import PRIORITIES
from yaffle.integrations.http import one_line

if TYPE_CHECKING:
    from pamqp.common import FieldValue

    from yaffle.drivers.detectors.lifecycle.channel_health import ChannelHealth
    from yaffle.drivers.detectors.lifecycle.settings import Broker, SourceSettings
    from yaffle.ports.clock import Clock

log = structlog.get_logger(__name__)

CONNECT_S: Final = 10.0
"""For TCP, TLS, the log-in, and our queues."""
PULSE_S: Final = 2.0
ANSWER_S: Final = 3.0
PREFETCH: Final = 500
"""Messages on their way to us that are not acknowledged."""
ACK: Final = 100
"""How many are acknowledged at once; what is left over is, at the next pulse."""
BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 30.0
STEADY_S: Final = 30.0
"""After that long a connection its loss is the first one again."""
EXPIRES_MS: Final = 60_000
NOT_FOUND: Final = 404
ASKING: Final = 2
"""Channel for questions that may cost it."""


class Source:
    """Runs until cancelled; tells `hear` what it hears, and `channels` whether it does."""

    def __init__(
        self,
        settings: SourceSettings,
        *,
        clock: Clock,
        channels: ChannelHealth,
        rng: Random,
        hear: Callable[[Heard], None],
        counts: Counter[str],
    ) -> None:
        self.name = settings.name
        self._settings, self._clock, self._channels, self._rng = settings, clock, channels, rng
        self._hear, self._counts = hear, counts
        self._next, self._failures = 0, 0
        self._queue = ""
        self._link: Link | None = None
        self._missing: tuple[str, ...] = ()
        """Exchanges that we are not bound to."""
        self._missing_told: tuple[str, ...] = ()
        self._poisoned = False
        self._tag = self._acked = 0

    async def run(self) -> None:
        """Connect, listen, and begin again when that ends."""
        while True:
            broker = self._settings.urls[self._next % len(self._settings.urls)]
            began_s = self._clock.monotonic_s()
            reason = await self._tried(broker)
            self._next += 1
            steady = self._clock.monotonic_s() - began_s >= STEADY_S
            self._failures = 0 if steady else self._failures + 1
            pause_s = self._pause_s()
            log.warning(
                "not listening", source=self.name, broker=broker.name, reason=reason, wait_s=pause_s
            )
            self._channels.tell(
                self.name,
                "not listening",
                fault=f"{broker.name}: {reason}",
                advice="All nodes are asked instead. It connects by itself once a broker answers.",
            )
            await self._clock.sleep(pause_s)

    async def _tried(self, broker: Broker) -> str:
        """Listen to one broker; return why that ended."""
        try:
            await self._listen(broker)
        except (OSError, TimeoutError) as error:
            return _reason(error)
        return "the connection was closed"

    def _pause_s(self) -> float:
        """Return how long to wait: the other brokers are tried at once, then all ever more rarely."""
        rounds = self._failures // len(self._settings.urls)
        top_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** min(rounds, 10))
        return round(self._rng.uniform(top_s / 2, top_s), 3)

    async def _listen(self, broker: Broker) -> None:
        """Listen to one broker until something is wrong with it."""
        async with self._connected(broker) as link:
            try:
                if not self._missing:
                    self._hears(broker)
                log.info("listening", source=self.name, broker=broker.name)
                await self._keep(link, broker)
            finally:
                self._channels.lost(self.name, self)

    @asynccontextmanager
    async def _connected(self, broker: Broker) -> AsyncIterator[Link]:
        link: Link | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                link = await connected(broker, self._settings.ssl, self._on_message)
                await link.log_in(broker, self._settings.heartbeat_s)
                await self._prepare(link)
            yield link
        except (OSError, TimeoutError):
            if link is not None:
                link.abort()
            raise
        finally:
            if link is not None:
                link.leave()

    # --- our queues ----------------------------------------------------------------------------

    async def _prepare(self, link: Link) -> None:
        """Make our queues, bind them, and begin to consume."""
        self._link = link
        self._queue = f"{self._settings.queue_prefix}.lifecycle.{uuid.uuid4().hex}"
        self._tag = self._acked = 0
        await link.call(commands.Basic.Qos(prefetch_count=PREFETCH))
        await self._declare(self._dropped, {"x-max-length": 1})
        await self._declare(
            self._queue,
            {
                "x-max-length": self._settings.queue_length,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": self._dropped,
            },
        )
        self._missing = self._settings.exchanges
        await self._bind(link)
        await link.call(commands.Basic.Consume(queue=self._queue, consumer_tag="yaffle"))

    async def _declare(self, name: str, arguments: dict[str, FieldValue]) -> None:
        assert self._link is not None  # noqa: S101 - set by the only caller
        await self._link.call(
            commands.Queue.Declare(
                queue=name,
                exclusive=True,
                auto_delete=True,
                arguments={"x-expires": EXPIRES_MS, **arguments},
            )
        )

    @property
    def _dropped(self) -> str:
        """Name the queue that the broker leaves a trace in when ours was too long."""
        return f"{self._queue}.dropped"

    async def _bind(self, link: Link) -> None:
        """Bind to the exchanges that are there by now."""
        missing = []
        for exchange in self._missing:
            if not await _exists(link, exchange):
                missing.append(exchange)
                continue
            for topic in self._settings.topics:
                for priority in PRIORITIES:
                    key = f"{topic}.{priority}"
                    await link.call(
                        commands.Queue.Bind(queue=self._queue, exchange=exchange, routing_key=key)
                    )
        if missing and tuple(missing) != self._missing_told:
            log.warning(
                "no such exchange: nothing has been sent yet, or its name is wrong",
                source=self.name,
                exchanges=missing,
            )
            self._channels.tell(
                self.name,
                "not listening",
                fault=f"there is no exchange {', '.join(missing)}",
                advice="Nothing has been sent there yet, or its name is wrong; all nodes are asked"
                " instead. See `exchanges` of the source, and `[oslo_messaging_notifications]` of"
                " the sender.",
            )
        self._missing = self._missing_told = tuple(missing)

    # --- while it lasts ------------------------------------------------------------------------

    def _hears(self, broker: Broker) -> None:
        """Say so: from now on silence means that nothing has happened."""
        self._channels.heard(self.name, self)
        self._channels.tell(self.name, f"listening to {broker.name}")

    async def _keep(self, link: Link, broker: Broker) -> None:
        """Feel the broker's pulse until the connection is lost."""
        while not await self._gone(link):
            async with asyncio.timeout(ANSWER_S):
                link.beat()
                self._acknowledge()
                await link.call(commands.Queue.Declare(queue=self._queue, passive=True))
                if await self._lost_some(link):
                    log.warning("events were dropped: every node is read", source=self.name)
                    self._counts["dropped"] += 1
                    self._channels.missed()
                if self._missing:
                    await self._bind(link)
                    if not self._missing:
                        self._hears(broker)
        link.check()

    async def _gone(self, link: Link) -> bool:
        try:
            async with asyncio.timeout(PULSE_S):
                await link.lost.wait()
        except TimeoutError:
            return False
        return True

    async def _lost_some(self, link: Link) -> bool:
        declared = await link.call(commands.Queue.Declare(queue=self._dropped, passive=True))
        if isinstance(declared, commands.Queue.DeclareOk) and declared.message_count == 0:
            return False
        await link.call(commands.Queue.Purge(queue=self._dropped))
        return True

    # --- messages ------------------------------------------------------------------------------

    def _on_message(self, exchange: str, tag: int, body: bytes) -> None:
        """Take one message; called in the order of arrival."""
        self._tag = tag
        told = self._read(exchange, body)
        if isinstance(told, Heard):
            self._counts["heard"] += 1
            self._hear(told)
        else:
            self._counts[told.value] += 1
        if tag - self._acked >= ACK:
            self._acknowledge()

    def _read(self, exchange: str, body: bytes) -> Heard | Ignored:
        if exchange not in self._settings.exchanges:
            # Anybody may put something into a queue of which he knows the name.
            return Ignored.STRANGER
        told = read(body)
        if told is Ignored.POISON and not self._poisoned:
            self._poisoned = True
            log.warning("a message cannot be read", source=self.name, bytes=len(body))
        return told

    def _acknowledge(self) -> None:
        if self._tag > self._acked and self._link is not None:
            self._acked = self._tag
            self._link.send(commands.Basic.Ack(delivery_tag=self._acked, multiple=True))


async def _exists(link: Link, exchange: str) -> bool:
    """Ask on a channel of its own: the broker closes one that asks for what is not there."""
    await link.call(commands.Channel.Open(), channel=ASKING)
    try:
        await link.call(commands.Exchange.Declare(exchange=exchange, passive=True), channel=ASKING)
    except Refused as refused:
        if refused.code != NOT_FOUND:
            raise
        return False
    await link.call(commands.Channel.Close(200, "asked", 0, 0), channel=ASKING)
    return True


def _reason(error: BaseException) -> str:
    """Return what went wrong; no text of ours holds a password, and those of the broker never do."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return one_line(str(error) or type(error).__name__)
