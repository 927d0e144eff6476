"""The engine's side of the API's process: starts it on our listening socket, and keeps it answering.

No client reaches the engine's loop or its descriptors. An API process that is stuck, even in the middle
of a write to the database, is killed and replaced; what clients send meanwhile waits in the socket.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, assert_never

import msgspec
import structlog

from yaffle.api.diagnostics.report import judged, unheard
from yaffle.cli.serve import link
from yaffle.cli.serve.link import Asked
from yaffle.cli.serve.supervisor_status import Standing
from yaffle.errors import ConfigError
from yaffle.integrations import child_process
from yaffle.integrations.cancellation import cancellable
from yaffle.integrations.child_process import Child, ChildLost, Pings

if TYPE_CHECKING:
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.api.diagnostics.report import Check
    from yaffle.config import Settings
    from yaffle.ports import Clock

log = structlog.get_logger()

PACE_S: Final = 1.0
PACE_S_MIN: Final = 0.5
"""A machine that is short of everything must not cost the API more than its patience."""
PACE_SHARE: Final = 0.075
"""Of a lease, so that it is killed within half of one: a renewal may wait for its write."""
SILENT_MAX: Final = 5
"""Signs of life in a row without an answer."""
START_S: Final = 120.0
"""Until commands are told of an API that has not said a word, which then has to be looked for."""
STOP_S: Final = 6.0
"""For requests under way to end, and for the process after them."""
SUPERVISORS: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What a supervisor told the engine's process is not for the API's."""


class ApiProcess:
    """One API process after another. Everything runs inside `run()`; call the rest on its loop."""

    def __init__(self, settings: Settings, sock: socket.socket, clock: Clock) -> None:
        self._settings = settings
        self._sock = sock
        self._clock = clock
        pace_s = max(PACE_S_MIN, min(PACE_S, settings.engine.lease * PACE_SHARE))
        self._pings = Pings(silent_max=SILENT_MAX, pace_s=pace_s)
        self._may_open = asyncio.Event()
        self._facts: EngineFacts | None = None
        self.vital: Callable[[], Iterable[Check]] = lambda: [unheard("it is being started")]
        """How the engine is; replaced once there is one."""
        self.up = False
        """Whether the present process answers requests."""
        self.was_up = False
        self.restarts = 0

    def open(self) -> None:
        """The database's schema is settled: API processes may open it."""
        self._may_open.set()

    def attach(self, facts: EngineFacts) -> None:
        """Answer questions about the engine from now on."""
        self._facts = facts
        self.vital = facts.vital

    def check(self) -> Check:
        """Return how the API is, as the engine's process sees it."""
        detail = f"{'answering' if self.up else 'away'}, after {self.restarts} restarts"
        advice = "It is started again by itself; see the log if it stays away."
        return judged("api", not self.up, detail, advice)

    def standing(self, engine: Standing) -> Standing:
        """Return how both stand: they have not started before the API has."""
        if self.was_up:
            return engine
        return Standing(text="starting the API", settled=False, patience_s=START_S)

    async def run(self) -> None:
        """Supervise until cancelled; raise ConfigError if the first process cannot start at all."""
        await child_process.supervise(self._one_child, self._lost, self._clock)

    def _lost(self, why: str, deaths: int) -> None:
        self.restarts += 1
        log.warning("api lost", why=why, deaths=deaths)

    async def _one_child(self) -> tuple[str, int]:
        self._pings.answered = 0
        try:
            async with child_process.started(
                "yaffle.cli.serve.api_child", self._sock.fileno(), without=SUPERVISORS
            ) as child:
                try:
                    return await self._attend(child), self._pings.answered
                finally:
                    self.up = False
        except ChildLost as lost:
            return str(lost), 0

    async def _attend(self, child: Child) -> str:
        why = ""
        try:
            child.writer.write(link.frame(link.Begin(pickle.dumps(self._settings))))
            try:
                await cancellable(self._talk(child.reader, child.writer))
            except* ChildLost as lost:
                why = str(lost.exceptions[0])
            except* OSError:
                why = "it died"
        except asyncio.CancelledError:
            await self._end_in_order(child)
            raise
        return why

    async def _end_in_order(self, child: Child) -> None:
        # Nobody is to wait in the backlog of a server that stops.
        self._sock.close()
        if self._pings.silent > 1:
            # It stands still, perhaps amid a write that the engine's own end waits for.
            return
        with suppress(OSError):
            child.writer.write(link.frame(link.Stop()))
        end_s = self._clock.monotonic_s() + STOP_S
        while child.process.poll() is None and self._clock.monotonic_s() < end_s:
            await self._clock.sleep(0.02)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = Asked(self._clock)

        def live(number: int) -> None:
            writer.write(link.frame(link.Vital(number, list(self.vital()))))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(reader, asked))
            tasks.create_task(self._pings.run("it", live, self._clock))
            tasks.create_task(self._admit(writer))
            tasks.create_task(self._answer(writer, asked))

    async def _admit(self, writer: asyncio.StreamWriter) -> None:
        # The group's cancellation bounds this wait.
        await self._may_open.wait()
        writer.write(link.frame(link.Open()))

    async def _read(self, reader: asyncio.StreamReader, asked: Asked) -> None:
        async for body in link.frames_of(reader):
            try:
                message = link.to_engine.decode(body)
            except msgspec.MsgspecError as error:
                raise ChildLost(f"it says what nobody understands: {error}") from error
            match message:
                case link.Alive():
                    self._pings.heard(ready=message.ready)
                    self.up = message.ready
                    self.was_up |= message.ready
                case link.Ask():
                    asked.put(message)
                case link.Failed():
                    if message.permanent and not self.was_up:
                        raise ConfigError(message.error)
                    raise ChildLost(message.error)
                case _:
                    assert_never(message)
        raise ChildLost("it died")

    async def _answer(self, writer: asyncio.StreamWriter, asked: Asked) -> None:
        async for answer in asked.answer(lambda: self._facts):
            writer.write(link.frame(answer))
            await writer.drain()
