"""One life of the real service in a process of its own, spoken to over a pipe, killed at will.

The service is wiring's, whole: store, prober, engine, commands. Only where a test asks for it the
store and the drivers are wrapped, to end the process at a boundary of a recovery's journal.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import select
from tests.verbs import Verbs

from yaffle.config import load
from yaffle.engine.commands import Commands
from yaffle.engine.engine import Engine
from yaffle.errors import YaffleError
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.policy import parse
from yaffle.store.database import Store
from yaffle.store.tables import actions, nodes, steps
from yaffle.wiring import Service, run, service


class Doom:
    """Names boundaries and ends the process at the chosen one, as `kill -9` would."""

    def __init__(self, at: str, path: Path) -> None:
        self._at = at
        self._path = path
        self.journal: object = None
        self.since_us = 0

    def boundary(self, name: str) -> None:
        """Note the boundary; die if it is the one."""
        with self._path.open("a") as file:
            file.write(f"{name}\n")
        if name == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class DoomedStore:
    """A store after each of whose commits the journal is looked at."""

    def __init__(self, inner: Store, doom: Doom) -> None:
        self._inner = inner
        self._doom = doom
        self.read = inner.read

    async def write(self, work: Callable[[Any], Any], **bounds: Any) -> Any:
        """Commit, then see whether a recovery has come a boundary further."""
        result = await self._inner.write(work, **bounds)
        now = await self._inner.read(self._journal)
        if now and now != self._doom.journal:
            self._doom.journal = now
            self._doom.boundary(f"journal {now[0]} {now[-1]}")
        return result

    def _journal(self, conn: Any) -> tuple[object, ...]:
        recoveries = (actions.c.action == "NODE_RECOVER") & (
            actions.c.created_us > self._doom.since_us
        )
        acts = conn.execute(select(actions.c.id, actions.c.status).where(recoveries)).all()
        done = conn.execute(
            select(steps.c.stage, steps.c.phase, steps.c.result)
            .where(steps.c.action_id.in_([a.id for a in acts]))
            .order_by(steps.c.action_id, steps.c.seq)
        ).all()
        return (*[a.status for a in acts], *[tuple(s) for s in done])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Doomed:
    """A driver whose acts are boundaries, before and after."""

    def __init__(self, inner: Any, doom: Doom, *verbs: str) -> None:
        self._inner = inner
        for verb in verbs:
            setattr(self, verb, self._wrapped(getattr(inner, verb), verb, doom))

    @staticmethod
    def _wrapped(call: Any, verb: str, doom: Doom) -> Any:
        async def wrapped(first: Any, *args: Any, **named: Any) -> Any:
            name = f"{verb} {getattr(first, 'kind', '')}".strip()
            if doom.journal is not None:
                doom.boundary(f"before {name}")
            result = await call(first, *args, **named)
            if doom.journal is not None:
                doom.boundary(f"after {name}")
            return result

        return wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def doomed(svc: Service, doom: Doom) -> Service:
    """Return the service with its store and its acting drivers wrapped."""
    doom.since_us = svc.ctx.clock.now_us()
    drivers = dataclasses.replace(
        svc.ctx.drivers,
        profiles={n: Doomed(p, doom, "submit") for n, p in svc.ctx.drivers.profiles.items()},
        fencers={n: Doomed(f, doom, "fence") for n, f in svc.ctx.drivers.fencers.items()},
    )
    store: Any = DoomedStore(svc.store, doom)
    ctx = dataclasses.replace(svc.ctx, store=store, drivers=drivers)
    return dataclasses.replace(
        svc, store=store, ctx=ctx, engine=Engine(ctx), commands=Commands(ctx)
    )


def main(flags: Mapping[str, Any], log_path: str, die_at: str | None, pipe: Connection) -> None:
    """Live until killed, told to quit, or the other end of the pipe is gone."""
    fd = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    asyncio.run(_live(flags, die_at, pipe))


async def _live(flags: Mapping[str, Any], die_at: str | None, pipe: Connection) -> None:
    settings = load(None, dict(flags))
    async with service(settings) as svc:
        live = svc
        if die_at is not None:
            live = doomed(svc, Doom(die_at, settings.state_dir / "boundaries"))
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        threading.Thread(target=_serve, args=(live, pipe, loop, task), daemon=True).start()
        try:
            # The prober tells the engine that it was wired with, and doomed ones have no URL modes.
            await (run(live) if die_at is None else live.engine.run())
        except asyncio.CancelledError:
            task.uncancel()


def _serve(
    svc: Service, pipe: Connection, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]
) -> None:
    pipe.send("up")
    while True:
        try:
            verb, args, named = pipe.recv()
        except (EOFError, OSError):
            verb = "quit"
        if verb == "quit":
            loop.call_soon_threadsafe(task.cancel)
            return
        answer: tuple[str, object]
        try:
            done = asyncio.run_coroutine_threadsafe(_carry_out(svc, verb, args, named), loop)
            answer = ("ok", done.result(50))
        except YaffleError as error:
            answer = ("refused", f"{type(error).__name__}: {error}")
        except TimeoutError:
            answer = ("refused", "TimeoutError: no answer in time")
        try:
            pipe.send(answer)
        except OSError:
            return


def _sleep_when_suspect(store: Any) -> None:
    """Stop this process, once, with the commit that calls a node suspect."""
    commit, awake = store.write, True

    async def write(work: Callable[[Any], Any], **bounds: Any) -> Any:
        nonlocal awake
        result = await commit(work, **bounds)
        # Asked for last: another commit may be past its read when the process wakes, and stop it again.
        if await store.read(_any_suspect) and awake:
            awake = False
            os.kill(os.getpid(), signal.SIGSTOP)
        return result

    store.write = write


def _any_suspect(conn: Any) -> bool:
    return conn.execute(select(nodes.c.id).where(nodes.c.health == "suspect")).first() is not None


async def _carry_out(svc: Service, verb: str, args: list[Any], named: dict[str, Any]) -> object:
    match verb:
        case "create_policy" | "update_policy":
            name, text = args
            parsed = parse(text)
            return await getattr(svc.commands, verb)(name, parsed, source=text, **named)
        case "pause":
            kind, scope, target = args
            return await svc.commands.pause(PauseKind(kind), PauseScope(scope), target, **named)
        case "sleep_when_suspect":
            return _sleep_when_suspect(svc.store)
        case "prober":
            return svc.prober.stats.pid
        case "descriptors":
            return len(list(Path("/proc/self/fd").iterdir()))
        case "tasks":
            return len(asyncio.all_tasks())
        case _:
            return await getattr(Verbs(svc.ctx), verb)(*args, **named)
