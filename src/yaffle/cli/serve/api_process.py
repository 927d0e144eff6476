"""The engine's side of the API's process: starts it on our listening socket, and keeps it answering.

No client reaches the engine's loop or its descriptors. An API process that is stuck, even in the middle
of a write to the database, is killed and replaced; what clients send meanwhile waits in the socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from yaffle.api.doctor.report import judged
from yaffle.cli.serve import link
from yaffle.cli.serve.standing import Standing
from yaffle.clouds import children
from yaffle.clouds.cancelling import cancellable
from yaffle.clouds.children import ChildLost, Pings
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    import subprocess

    from yaffle.api.doctor.engine_facts import EngineFacts
    from yaffle.api.doctor.report import Check
    from yaffle.config import Settings
    from yaffle.ports import Clock

log = structlog.get_logger()

PACE_S: Final = 1.0
SILENT_MAX: Final = 5
"""Signs of life in a row without an answer: it is killed before a write that it holds costs a lease."""
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
        self._pings = Pings(silent_max=SILENT_MAX, pace_s=PACE_S)
        self._may_open = asyncio.Event()
        self._asks: asyncio.Queue[link.Ask] = asyncio.Queue(link.ASKS_MAX)
        self._facts: EngineFacts | None = None
        self.vital: Callable[[], Iterable[Check]] = tuple
        """How the engine is; replaced once there is one."""
        self.up = False
        """Whether the present process answers requests."""
        self.was_up = False
        self.restarts = 0

    def open(self) -> None:
        """The database's schema is settled: API processes may open it."""
        self._may_open.set()

    def attach(self, facts: EngineFacts) -> None:
        """From now on questions about the engine are answered."""
        self._facts = facts
        self.vital = facts.vital

    def check(self) -> Check:
        """Return how the API is, as the engine's process sees it."""
        detail = f"{'answering' if self.up else 'away'}, after {self.restarts} restarts"
        advice = "It is started again by itself; see the log if it stays away."
        return judged("api", not self.up, detail, advice)

    def standing(self, engine: Standing) -> Standing:
        """Return how both stand: they have not started before the API has."""
        if self.was_up or not engine.settled:
            return engine
        return Standing(text="starting the API", settled=False)

    async def run(self) -> None:
        """Supervise until cancelled; raise ConfigError if the first process cannot start at all."""
        await children.supervise(self._one_child, self._lost, self._clock)

    def _lost(self, why: str, deaths: int) -> None:
        self.restarts += 1
        log.warning("api lost", why=why, deaths=deaths)

    async def _one_child(self) -> tuple[str, int]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours:
            try:
                with theirs:
                    descriptors = [theirs.fileno(), self._sock.fileno()]
                    child = children.start(
                        "yaffle.cli.serve.api_child", descriptors, without=SUPERVISORS
                    )
            except OSError as error:
                return f"the API's process cannot be started: {error}", 0
            try:
                return await self._attend(ours, child), self._pings.answered
            finally:
                self.up = False
                children.end(child)

    async def _attend(self, ours: socket.socket, child: subprocess.Popen[bytes]) -> str:
        reader, writer = await asyncio.open_connection(sock=ours)
        why = ""
        try:
            writer.write(link.frame(link.Begin(self._settings.model_dump_json().encode())))
            try:
                await cancellable(self._talk(reader, writer))
            except* ChildLost as lost:
                why = str(lost.exceptions[0])
            except* OSError:
                why = "it died"
        except asyncio.CancelledError:
            await self._end_in_order(writer, child)
            raise
        finally:
            writer.close()
        return why

    async def _end_in_order(
        self, writer: asyncio.StreamWriter, child: subprocess.Popen[bytes]
    ) -> None:
        # Nobody is to wait in the backlog of a server that stops.
        self._sock.close()
        with suppress(OSError):
            writer.write(link.frame(link.Stop()))
        end_s = self._clock.monotonic_s() + STOP_S
        while child.poll() is None and self._clock.monotonic_s() < end_s:
            await self._clock.sleep(0.02)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def live(number: int) -> None:
            writer.write(link.frame(link.Vital(number, list(self.vital()))))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(reader))
            tasks.create_task(self._pings.run("it", live, self._clock))
            tasks.create_task(self._admit(writer))
            tasks.create_task(self._answer(writer))

    async def _admit(self, writer: asyncio.StreamWriter) -> None:
        # The group's cancellation bounds this wait.
        await self._may_open.wait()
        writer.write(link.frame(link.Open()))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for body in link.frames_of(reader):
            message = link.to_engine.decode(body)
            match message:
                case link.Alive():
                    self._pings.heard()
                    self.up = message.ready
                    self.was_up |= message.ready
                case link.Ask():
                    with suppress(asyncio.QueueFull):
                        self._asks.put_nowait(message)
                case link.Failed():
                    if not self.was_up:
                        raise ConfigError(message.error)
                    raise ChildLost(message.error)
                case _:
                    assert_never(message)
        raise ChildLost("it died")

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        """Answer one question after another, resting in between: most of the loop is for healing."""
        while True:
            # The group's cancellation bounds this wait.
            ask = await self._asks.get()
            if self._facts is None:
                continue
            began_s = self._clock.monotonic_s()
            body = await link.answer(self._facts, ask)
            took_s = self._clock.monotonic_s() - began_s
            writer.write(link.frame(link.Answer(ask.number, body)))
            await writer.drain()
            await self._clock.sleep(took_s * link.REST_SHARE)
