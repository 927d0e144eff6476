"""AMQP 0-9-1 connection that only listens: frames in, messages out, nothing between.

A listener of notifications does one thing a thousand times a second, and the client libraries that
exist spend more on each message (tasks, queues, objects) than we spend on understanding it; measured
by `bench/notifications.py`. So the deliveries are cut out of the stream here, and everything else is
pamqp's: its frames, its tables, its errors. Messages that are too large are not even collected.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from pamqp import commands, constants, frame, heartbeat
from pamqp.base import Frame
from pamqp.exceptions import PAMQPException

from yaffle.drivers.detectors.lifecycle.messages import BODY_MAX

if TYPE_CHECKING:
    from yaffle.drivers.detectors.lifecycle.settings import Broker

Deliver = Callable[[str, int, bytes], None]
"""Takes exchange, delivery tag and body; called in the order of arrival, and never waits."""

CHANNEL: Final = 1
"""Ours; others are opened for questions that the broker may answer by closing the channel."""
FRAME_MAX: Final = 131_072
LEAVE_S: Final = 2.0
_HEAD: Final = struct.Struct(">BHI")
_TAG: Final = struct.Struct(">Q")
_DELIVER: Final = struct.pack(">HH", 60, 60)
_GREETING: Final = b"AMQP\x00\x00\x09\x01"
_END: Final = constants.FRAME_END
_BROKEN: Final = (
    *(PAMQPException, struct.error, LookupError, ValueError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError),
)
"""How bytes that are not AMQP show."""


class LinkLost(OSError):
    """The connection has ended, or the broker has ended it; the message says why."""


class Refused(LinkLost):
    """The broker closed a channel because of what it was asked."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Link(asyncio.Protocol):
    """Use `opened`; every call must be bounded by the caller."""

    def __init__(self, deliver: Deliver) -> None:
        self.lost = asyncio.Event()
        self._deliver = deliver
        self._transport: asyncio.Transport | None = None
        self._reason = "the connection was closed"
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[Frame] | None = None
        self._rest = b""
        self._exchange, self._tag, self._left = "", 0, 0
        self._parts: list[bytes] = []

    # --- asyncio.Protocol ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        # uvloop's is one in all but name.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(_GREETING)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if exc is not None and str(exc):
            self._reason = str(exc)
        self._fail(LinkLost(self._reason))

    def data_received(self, data: bytes) -> None:
        """Cut the stream into frames."""
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        try:
            while size - at > _HEAD.size:
                kind, channel, length = _HEAD.unpack_from(data, at)
                end = at + _HEAD.size + length
                if length > FRAME_MAX:
                    raise ValueError("a frame is too long")
                if end >= size:
                    break
                if data[end] != _END:
                    raise ValueError("a frame does not end where it should")
                self._frame(kind, channel, data, at, end)
                at = end + 1
        except _BROKEN as error:
            self._abort(LinkLost(f"the other side does not speak AMQP 0-9-1: {error}"))
            return
        self._rest = data[at:]

    # --- frames --------------------------------------------------------------------------------

    def _frame(self, kind: int, channel: int, data: bytes, at: int, end: int) -> None:
        start = at + _HEAD.size
        if kind == constants.FRAME_METHOD:
            if data[start : start + 4] == _DELIVER:
                self._delivery(data, start + 4)
            else:
                self._method(channel, frame.unmarshal(data[at : end + 1])[2])
        elif kind == constants.FRAME_HEADER:
            (self._left,) = _TAG.unpack_from(data, start + 4)
            self._parts = []
            self._complete()
        elif kind == constants.FRAME_BODY:
            self._left -= end - start
            # Of one that is too large only so much is kept as shows that it is.
            if sum(map(len, self._parts)) <= BODY_MAX:
                self._parts.append(data[start:end])
            self._complete()

    def _delivery(self, data: bytes, at: int) -> None:
        """Read consumer tag, delivery tag, redelivered, exchange; the routing key is of no use."""
        at += 1 + data[at]
        (self._tag,) = _TAG.unpack_from(data, at)
        at += _TAG.size + 1
        self._exchange = data[at + 1 : at + 1 + data[at]].decode()

    def _complete(self) -> None:
        if self._left <= 0:
            parts, self._parts = self._parts, []
            self._deliver(
                self._exchange, self._tag, parts[0] if len(parts) == 1 else b"".join(parts)
            )

    def _method(self, channel: int, method: object) -> None:
        match method:
            case commands.Connection.Close():
                self.send(commands.Connection.CloseOk(), channel=0)
                self._abort(LinkLost(str(method.reply_text)))
            case commands.Channel.Close():
                refused = Refused(method.reply_code or 0, str(method.reply_text))
                self.send(commands.Channel.CloseOk(), channel=channel)
                if channel == CHANNEL:
                    self._abort(refused)
                elif self._answer is not None and not self._answer.done():
                    self._answer.set_exception(refused)
            case commands.Basic.Cancel():
                self._abort(LinkLost("the broker has taken our queue away"))
            case commands.Connection.Blocked() | commands.Connection.Unblocked():
                pass  # it is about those who publish
            case Frame():
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(method)
            case _:
                pass  # a heartbeat

    def _abort(self, why: LinkLost) -> None:
        self._reason = str(why)
        self._fail(why)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, why: LinkLost) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)
        self.lost.set()

    # --- what is asked -------------------------------------------------------------------------

    def check(self) -> None:
        """Raise LinkLost, with the reason, once the connection has ended."""
        if self.lost.is_set():
            raise LinkLost(self._reason)

    def send(self, method: Frame, *, channel: int = CHANNEL) -> None:
        """Send what has no answer; nothing happens once the connection has ended."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame.marshal(method, channel))

    def beat(self) -> None:
        """Show the broker that we live."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame.marshal(heartbeat.Heartbeat(), 0))

    async def call(self, method: Frame | None, *, channel: int = CHANNEL) -> Frame:
        """Send a method and return its answer; None waits for what the broker says by itself."""
        async with self._turn:
            self.check()
            self._answer = asyncio.get_running_loop().create_future()
            try:
                if method is not None:
                    self.send(method, channel=channel)
                return await self._answer
            finally:
                self._answer = None

    async def log_in(self, broker: Broker, heartbeat_s: float) -> None:
        """Be let in, and open our channel."""
        await self.call(None)
        tune = await self.call(
            commands.Connection.StartOk(
                client_properties={
                    "product": "yaffle",
                    "connection_name": "yaffle",
                    "capabilities": {
                        "authentication_failure_close": True,
                        "consumer_cancel_notify": True,
                    },
                },
                mechanism="PLAIN",
                response=f"\0{broker.user}\0{broker.password}",
            ),
            channel=0,
        )
        if not isinstance(tune, commands.Connection.Tune):
            raise LinkLost(f"the broker answered the log-in with {tune.name}")
        self.send(
            commands.Connection.TuneOk(
                channel_max=tune.channel_max,
                frame_max=min(tune.frame_max or FRAME_MAX, FRAME_MAX),
                heartbeat=round(heartbeat_s),
            ),
            channel=0,
        )
        await self.call(commands.Connection.Open(virtual_host=broker.vhost), channel=0)
        await self.call(commands.Channel.Open())

    def leave(self) -> None:
        """Say goodbye, without waiting for an answer, and end the connection."""
        if self._transport is None or self.lost.is_set():
            return
        self.send(commands.Connection.Close(200, "goodbye", 0, 0), channel=0)
        self._transport.close()
        # What the other side does not take does not keep us.
        asyncio.get_running_loop().call_later(LEAVE_S, self._transport.abort)

    def abort(self) -> None:
        """End the connection now."""
        self._abort(LinkLost(self._reason))


async def connected(broker: Broker, context: ssl.SSLContext | None, deliver: Deliver) -> Link:
    """Return a link to the broker, not logged in yet; OSError where there is none."""
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(
        lambda: Link(deliver),
        broker.host,
        broker.port,
        ssl=context if broker.tls else None,
    )
    return link
