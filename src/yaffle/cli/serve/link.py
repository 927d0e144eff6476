"""Link between the engine's process and the API's: msgpack structs in length-prefixed frames.

The API asks; how much of the engine's loop that takes is bounded by the engine, whoever asks the API.
Both ends are the same installation, so there is no version in it; field order is the format.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, assert_never

import msgspec
import structlog

from yaffle.api.diagnostics.report import Check, unheard
from yaffle.engine.explain.answer import LastWord
from yaffle.errors import EngineUnavailable
from yaffle.model.ids import NodeId
from yaffle.prober.wire import Frames, frame

if TYPE_CHECKING:
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.api.diagnostics.process import Process
    from yaffle.ports import Clock

__all__ = ["frame"]

log = structlog.get_logger()

ASK_S: Final = 2.0
"""An engine whose loop is late by so much does not answer."""
ASKS_MAX: Final = 64
STALE_S: Final = 5.0
"""So old may the engine's last sign of life be: it gives one every second."""
REST_SHARE: Final = 9.0
"""After an answer the engine rests for so many times as long as it took."""
METRICS_S: Final = 1.0
"""So old may what was counted be, however many ask for it."""
READ_BYTES: Final = 256 * 1024

What = Literal["checks", "unseen", "last words", "metrics"]


class Begin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """Sent first. `settings`: the engine's own, pickled; they may hold secrets, which no argument may."""

    settings: bytes


class Open(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """The database may be opened: its schema is settled."""


class Vital(msgspec.Struct, frozen=True, array_like=True, tag="vital"):
    """A sign of life that wants one in return, and how the engine is."""

    number: int
    checks: list[Check]


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """The answer to the question of that number; without a body there is none."""

    number: int
    body: bytes | None


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """End in order: no new requests, those under way end."""


class Alive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """The sign of life in return; `ready` says whether requests are answered."""

    number: int
    ready: bool


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A question to the engine."""

    number: int
    what: What
    body: bytes


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The API has ended by an error; `permanent`: a setting is wrong, and trying again is no use."""

    error: str
    permanent: bool


ToApi = Begin | Open | Vital | Answer | Stop
ToEngine = Alive | Ask | Failed

to_api: Final = msgspec.msgpack.Decoder(ToApi)
to_engine: Final = msgspec.msgpack.Decoder(ToEngine)
_checks: Final = msgspec.msgpack.Decoder(list[Check])
_unseen: Final = msgspec.msgpack.Decoder(list[str] | None)
_last_words: Final = msgspec.msgpack.Decoder(dict[str, LastWord] | None)
encoded: Final = msgspec.msgpack.Encoder().encode


async def frames_of(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield what arrives until the other end is gone."""
    frames = Frames()
    while data := await reader.read(READ_BYTES):
        for body in frames.feed(data):
            yield body


async def answer(facts: EngineFacts, ask: Ask) -> bytes:
    """Return what the engine knows, ready for the pipe."""
    match ask.what:
        case "checks":
            return encoded(await facts.checks(_checks.decode(ask.body)))
        case "unseen":
            return encoded(await facts.unseen())
        case "last words":
            return encoded(await facts.last_words(NodeId(ask.body.decode())))
        case "metrics":
            return await facts.metrics()
        case _:
            assert_never(ask.what)


class Asked:
    """The questions of one API process, answered one after another, at a bounded price.

    After each the engine rests: most of its loop is for healing, whoever asks the API for what. Questions
    whose asker has given up are dropped, and so are those for which there is no room.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asks: asyncio.Queue[tuple[Ask, float]] = asyncio.Queue(ASKS_MAX)

    def put(self, ask: Ask) -> None:
        """Take a question."""
        with suppress(asyncio.QueueFull):
            self._asks.put_nowait((ask, self._clock.monotonic_s()))

    async def answer(self, facts: Callable[[], EngineFacts | None]) -> AsyncIterator[Answer]:
        """Yield answers until closed; `facts` are None as long as there is no engine."""
        while True:
            # The owner's cancellation bounds this wait.
            ask, asked_s = await self._asks.get()
            began_s = self._clock.monotonic_s()
            known = facts()
            if known is None or began_s - asked_s > ASK_S:
                continue
            yield Answer(ask.number, await _answered(known, ask))
            await self._clock.sleep((self._clock.monotonic_s() - began_s) * REST_SHARE)


async def _answered(facts: EngineFacts, ask: Ask) -> bytes | None:
    try:
        return await answer(facts, ask)
    except Exception:  # detectors of others are asked among the rest: none of them ends the healing
        log.exception("a question of the API failed", what=ask.what)
        return None


class EngineLink:
    """Implements `EngineFacts` in the API's process, by asking the engine's."""

    def __init__(self, writer: asyncio.StreamWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[bytes | None]] = {}
        self._vital: list[Check] = []
        self._heard_s = clock.monotonic_s()
        self._counted: tuple[float, bytes | EngineUnavailable] = (-METRICS_S, b"")
        self._counting = asyncio.Lock()
        self.own: Process | None = None
        """What this process knows of itself, once its parts are there."""

    # --- the conversation ---

    def tell(self, message: ToEngine) -> None:
        """Say something to the engine; one that is gone is noticed by whoever reads."""
        with suppress(OSError):
            self._writer.write(frame(message))

    def hear(self, message: Vital | Answer) -> None:
        """Take what the engine says."""
        self._heard_s = self._clock.monotonic_s()
        if isinstance(message, Vital):
            self._vital = message.checks
        elif (asked := self._asked.get(message.number)) is not None and not asked.done():
            asked.set_result(message.body)

    # --- EngineFacts ---

    def vital(self) -> Iterable[Check]:
        """As `EngineFacts`: what the engine said last, unless that was long ago."""
        if self.own is not None:
            yield from self.own.database()
        silent_s = self._clock.monotonic_s() - self._heard_s
        if silent_s > STALE_S:
            yield unheard(f"it was heard last {silent_s:.0f} s ago")
        else:
            # The database is asked by each process for itself.
            yield from (check for check in self._vital if check.name != "database")

    async def checks(self, causes: Sequence[Check]) -> Sequence[Check]:
        """As `EngineFacts`."""
        return _checks.decode(await self._ask("checks", encoded(causes)))

    async def unseen(self) -> Sequence[str] | None:
        """As `EngineFacts`."""
        found: list[str] | None = _unseen.decode(await self._ask("unseen"))
        return found

    async def last_words(self, node_id: NodeId) -> Mapping[str, LastWord] | None:
        """As `EngineFacts`."""
        body = await self._ask("last words", node_id.encode())
        found: dict[str, LastWord] | None = _last_words.decode(body)
        return found

    async def metrics(self) -> bytes:
        """As `EngineFacts`; those who ask within a second get the same."""
        async with self._counting:
            if self._clock.monotonic_s() - self._counted[0] >= METRICS_S:
                found: bytes | EngineUnavailable
                try:
                    found = await self._ask("metrics")
                except EngineUnavailable as error:
                    # For all who wait: each would wait as long, one after the other.
                    found = error
                self._counted = self._clock.monotonic_s(), found
            known = self._counted[1]
        if isinstance(known, EngineUnavailable):
            raise EngineUnavailable(str(known))
        return known

    async def _ask(self, what: What, body: bytes = b"") -> bytes:
        if len(self._asked) >= ASKS_MAX:
            raise EngineUnavailable(f"{ASKS_MAX} questions wait for the engine; ask again later")
        number = next(self._numbers)
        asked: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        try:
            self._writer.write(frame(Ask(number, what, body)))
            async with asyncio.timeout(ASK_S):
                found = await asked
        except (TimeoutError, OSError):
            raise EngineUnavailable(f"the engine has not answered within {ASK_S:g} s") from None
        finally:
            del self._asked[number]
        if found is None:
            raise EngineUnavailable("the engine could not answer; its log says why")
        return found


if TYPE_CHECKING:
    _conforms: type[EngineFacts] = EngineLink
