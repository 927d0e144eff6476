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
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final

import aio_pika
import structlog
from aio_pika.exceptions import AMQPException, ChannelNotFoundEntity
from yarl import URL

from yaffle.clouds.http import one_line
from yaffle.drivers.detectors.lifecycle.messages import Heard, Ignored, read
from yaffle.drivers.detectors.lifecycle.settings import PRIORITIES

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection
    from aiormq.abc import AbstractChannel, DeliveredMessage

    from yaffle.drivers.detectors.lifecycle.ears import Ears
    from yaffle.drivers.detectors.lifecycle.settings import Broker, SourceSettings
    from yaffle.ports.clock import Clock

log = structlog.get_logger(__name__)
for _library in ("aiormq", "aio_pika"):
    # A connection that ends is a traceback or two to them; what there is to say of it we say.
    logging.getLogger(_library).setLevel(logging.CRITICAL)

CONNECT_S: Final = 10.0
"""For TCP, TLS, the log-in, and our queues."""
PULSE_S: Final = 2.0
ANSWER_S: Final = 3.0
CLOSE_S: Final = 2.0
PREFETCH: Final = 500
"""Messages on their way to us that are not acknowledged."""
ACK: Final = 100
"""How many are acknowledged at once; what is left over is, at the next pulse."""
BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 30.0
STEADY_S: Final = 30.0
"""After that long a connection its loss is the first one again."""
EXPIRES_MS: Final = 60_000
_FAULTS: Final = (OSError, TimeoutError, AMQPException, RuntimeError)
"""How aio-pika fails: `RuntimeError` is its word for "closed meanwhile"."""


class Source:
    """Runs until cancelled; tells `hear` what it hears, and `ears` whether it does."""

    def __init__(
        self,
        settings: SourceSettings,
        *,
        clock: Clock,
        ears: Ears,
        rng: Random,
        hear: Callable[[Heard], None],
        counts: Counter[str],
    ) -> None:
        self.name = settings.name
        self._settings, self._clock, self._ears, self._rng = settings, clock, ears, rng
        self._hear, self._counts = hear, counts
        self._next, self._failures = 0, 0
        self._queue = ""
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
            await self._clock.sleep(pause_s)

    async def _tried(self, broker: Broker) -> str:
        """Listen to one broker; return why that ended."""
        try:
            await self._listen(broker)
        except _FAULTS as error:
            return _reason(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # aiormq cancels whoever waits on a connection that ends; it was not us who were meant.
        return "the connection was closed"

    def _pause_s(self) -> float:
        """Return how long to wait: the other brokers are tried at once, then all ever more rarely."""
        rounds = self._failures // len(self._settings.urls)
        top_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** min(rounds, 10))
        return round(self._rng.uniform(top_s / 2, top_s), 3)

    async def _listen(self, broker: Broker) -> None:
        """Listen to one broker until something is wrong with it."""
        async with self._connected(broker) as connection:
            lost = asyncio.Event()
            connection.close_callbacks.add(lambda *_: lost.set())
            async with asyncio.timeout(CONNECT_S):
                channel = await self._prepare(connection)
            try:
                if not self._missing:
                    self._ears.heard(self.name, self)
                log.info("listening", source=self.name, broker=broker.name)
                await self._keep(connection, channel, lost)
            finally:
                self._ears.lost(self.name, self)

    @asynccontextmanager
    async def _connected(self, broker: Broker) -> AsyncIterator[AbstractConnection]:
        url = URL(broker.url, encoded=True)
        heartbeat = str(round(self._settings.heartbeat_s))
        connection = await aio_pika.connect(
            url.update_query(heartbeat=heartbeat, name="yaffle"),
            ssl_context=self._settings.ssl if broker.tls else None,
            timeout=CONNECT_S,
        )
        try:
            yield connection
        finally:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await connection.close()
            except _FAULTS:
                log.debug("broker did not say goodbye", source=self.name, broker=broker.name)

    # --- our queues ----------------------------------------------------------------------------

    async def _prepare(self, connection: AbstractConnection) -> AbstractChannel:
        """Make our queues, bind them, and begin to consume."""
        self._queue = f"{self._settings.queue_prefix}.lifecycle.{uuid.uuid4().hex}"
        self._tag = self._acked = 0
        channel = await (await connection.channel(publisher_confirms=False)).get_underlay_channel()
        await channel.basic_qos(prefetch_count=PREFETCH)
        await channel.queue_declare(
            self._dropped,
            exclusive=True,
            auto_delete=True,
            arguments={"x-max-length": 1, "x-expires": EXPIRES_MS},
        )
        await channel.queue_declare(
            self._queue,
            exclusive=True,
            auto_delete=True,
            arguments={
                "x-max-length": self._settings.queue_length,
                "x-expires": EXPIRES_MS,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": self._dropped,
            },
        )
        self._missing = self._settings.exchanges
        await self._bind(connection, channel)
        await channel.basic_consume(self._queue, self._on_message)
        return channel

    @property
    def _dropped(self) -> str:
        """Name the queue that the broker leaves a trace in when ours was too long."""
        return f"{self._queue}.dropped"

    async def _bind(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        """Bind to the exchanges that are there by now."""
        missing = []
        for exchange in self._missing:
            if not await _exists(connection, exchange):
                missing.append(exchange)
                continue
            for topic in self._settings.topics:
                for priority in PRIORITIES:
                    key = f"{topic}.{priority}"
                    await channel.queue_bind(self._queue, exchange, routing_key=key)
        if missing and tuple(missing) != self._missing_told:
            log.warning(
                "no such exchange: nothing has been sent yet, or its name is wrong",
                source=self.name,
                exchanges=missing,
            )
        self._missing = self._missing_told = tuple(missing)

    # --- while it lasts ------------------------------------------------------------------------

    async def _keep(
        self, connection: AbstractConnection, channel: AbstractChannel, lost: asyncio.Event
    ) -> None:
        """Feel the broker's pulse until the connection is lost."""
        while not await self._gone(lost):
            async with asyncio.timeout(ANSWER_S):
                await self._acknowledge(channel)
                await channel.queue_declare(self._queue, passive=True)
                if await self._lost_some(channel):
                    log.warning("events were dropped: every node is read", source=self.name)
                    self._counts["dropped"] += 1
                    self._ears.missed()
                if self._missing:
                    await self._bind(connection, channel)
                    if not self._missing:
                        self._ears.heard(self.name, self)

    async def _gone(self, lost: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(PULSE_S):
                await lost.wait()
        except TimeoutError:
            return False
        return True

    async def _lost_some(self, channel: AbstractChannel) -> bool:
        declared = await channel.queue_declare(self._dropped, passive=True)
        if not declared.message_count:
            return False
        await channel.queue_purge(self._dropped)
        return True

    # --- messages ------------------------------------------------------------------------------

    async def _on_message(self, message: DeliveredMessage) -> None:
        """Take one message; called in the order of arrival, and never waits but for its channel."""
        self._tag = message.delivery_tag or self._tag
        told = self._read(message)
        if isinstance(told, Heard):
            self._counts["heard"] += 1
            self._hear(told)
        else:
            self._counts[told.value] += 1
        if self._tag - self._acked >= ACK:
            await self._acknowledge(message.channel)

    def _read(self, message: DeliveredMessage) -> Heard | Ignored:
        if message.exchange not in self._settings.exchanges:
            # Anybody may put something into a queue of which he knows the name.
            return Ignored.STRANGER
        told = read(message.body)
        if told is Ignored.POISON and not self._poisoned:
            self._poisoned = True
            log.warning("a message cannot be read", source=self.name, bytes=len(message.body))
        return told

    async def _acknowledge(self, channel: AbstractChannel) -> None:
        if self._tag > self._acked:
            self._acked = self._tag
            await channel.basic_ack(self._acked, multiple=True, wait=False)


async def _exists(connection: AbstractConnection, exchange: str) -> bool:
    """Ask on a channel of its own: the broker closes one that asks for what is not there."""
    channel = await (await connection.channel(publisher_confirms=False)).get_underlay_channel()
    try:
        await channel.exchange_declare(exchange, passive=True)
    except ChannelNotFoundEntity:
        return False
    await channel.close()
    return True


def _reason(error: BaseException) -> str:
    """Return what went wrong; no text of ours holds the URL, and those of the broker never do."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return one_line(str(error) or type(error).__name__)
