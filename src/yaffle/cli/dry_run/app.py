"""The life of a watch: say hello, list, begin, look on and tell, until a signal or its time is over.

    greet ─▶ list ─▶ write down ─▶ run the engine ┬▶ list again, every interval: who came, who went
                                                  └▶ tell what was decided, every second

Whatever ends it, what it knows lies in its database, and the next run goes on from there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle import wiring
from yaffle.cli import durations
from yaffle.cli.dry_run import paths, report, report_store
from yaffle.cli.dry_run.grouping import By, Rule
from yaffle.cli.dry_run.intro import beginning, names_of, seen_of
from yaffle.cli.dry_run.inventory import Change, Roll, change
from yaffle.cli.dry_run.messages import Kind, Line, calm
from yaffle.cli.dry_run.policy import observing, read, usual
from yaffle.cli.dry_run.report_store import About, Told
from yaffle.cli.dry_run.reporter import Teller
from yaffle.cli.output import clean
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import DependencyError, Forbidden, StoreUnavailable, YaffleError
from yaffle.integrations.openstack import CloudsYaml, lasting, looked_at
from yaffle.model.health import Health
from yaffle.model.operations import Actor, Target

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.integrations.openstack import Identity, LookedAt
    from yaffle.model.ids import NodeId
    from yaffle.model.operations import Present
    from yaffle.policy import ParsedPolicy
    from yaffle.ports import Clock
    from yaffle.store.rows import NodeRow

CALL_S: Final = 60.0
"""For the list of all servers; a large cloud takes its time."""
CAUSE_S: Final = 15.0
TELL_S: Final = 1.0
AGAIN_S: Final = 5.0
GONE_KEPT_US: Final = 3_600_000_000
"""So long a server is watched that is gone and that nobody is known to have deleted."""
CAUSES: Final = 20
"""Servers that went whose causes are asked for in one turn."""
SHARE: Final = 0.4
"""Of an interval may a list of servers be old: two looks at one group never count the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    cloud: str
    clouds_file: Path | None
    database: Path
    rule: Rule
    all_projects: bool
    interval_s: float
    policy_file: str | None
    for_s: float | None
    as_json: bool


def run(asked: Asked) -> None:
    """Watch until a signal comes or the time is over; raise what a person has to mend."""
    own = None if asked.policy_file is None else observing(read(asked.policy_file))
    asyncio.run(_run(asked, own))


async def _run(asked: Asked, own: ParsedPolicy | None) -> None:
    usual_policy = observing(usual(asked.interval_s))
    interval_s = (own or usual_policy).health.detection.interval_s
    clock = SystemClock()
    cloud = looked_at(CloudsYaml(name=asked.cloud, file=asked.clouds_file), clock)
    watched = wiring.Watched(
        cloud=cloud,
        name=asked.cloud,
        all_projects=asked.all_projects,
        shared_s=interval_s * SHARE,
    )
    await _usable(cloud)
    stopping = asyncio.Event()
    with _signals(stopping):
        async with wiring.watching(paths.settings(asked.database), watched) as parts:
            life = _Life(asked, parts, cloud, own, interval_s)
            try:
                async with asyncio.timeout(asked.for_s) as limit:
                    await _until(stopping, life.live(limit))
            except TimeoutError:
                life.over()
            await life.end()


async def _usable(cloud: LookedAt) -> None:
    """Raise what a person has to mend before any answer can come: nothing is left behind then."""
    try:
        await cloud.call(lambda client: client.identity, CALL_S)
    except TimeoutError:
        return
    except YaffleError as error:
        mend = lasting(error)
        if mend is not None:
            raise mend from None


async def _until(stopping: asyncio.Event, living: Coroutine[None, None, None]) -> None:
    """Live until told to stop."""
    async with asyncio.TaskGroup() as group:
        work = group.create_task(living, name="watch")
        await stopping.wait()
        work.cancel()


@contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a terminal that is closed end the watch in order."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Life:
    def __init__(
        self,
        asked: Asked,
        parts: wiring.Watching,
        cloud: LookedAt,
        own: ParsedPolicy | None,
        interval_s: float,
    ) -> None:
        self._asked = asked
        self._parts = parts
        self._cloud = cloud
        self._own = own
        self._interval_s = interval_s
        self._roll = Roll(parts.ctx, parts.commands, parts.nova.type)
        self._away_us: int | None = None
        self._projects: Mapping[str, str] = {}
        self._asked_for: dict[NodeId, int] = {}
        """When we asked why a server that is missing is gone."""
        self._began = False

    @property
    def _clock(self) -> Clock:
        return self._parts.ctx.clock

    async def live(self, limit: asyncio.Timeout) -> None:
        """Begin, and look on until cancelled; the time of `limit` begins when all is written down."""
        identity, servers = await self._first()
        limit.reschedule(None)
        every = self._asked.all_projects
        self._projects = await names_of(self._cloud, identity, all_projects=every)
        seen = await seen_of(self._parts, identity, servers, all_projects=every)
        policy = self._own or observing(usual(self._asked.interval_s, hosts=seen.hosts))
        await self._roll.begin(policy)
        # Before anybody is taken in: those who were there at the first look did not arrive.
        told = await self._parts.ctx.store.read(Told.before)
        found = await self._compared(servers)
        await self._roll.take_in(found)
        before = await self._parts.ctx.store.read(lambda c: report.read(c)[0])
        begun = beginning(self._asked.cloud, seen, servers, found, policy, still=before.open)
        await self._say([(begun, None)])
        self._began = True
        if self._asked.for_s is not None:
            limit.reschedule(asyncio.get_running_loop().time() + self._asked.for_s)
        await self._settle(found)
        teller = Teller(self._parts.ctx, self._parts.engine, told, self._print)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._parts.engine.run(), name="engine")
            group.create_task(self._keep_listing(), name="list")
            group.create_task(self._keep_telling(teller), name="tell")

    def over(self) -> None:
        """The time is over; raise DependencyError if the cloud never answered in it."""
        if not self._began:
            raise DependencyError(
                f"cloud {self._asked.cloud}: it did not answer, and the time of --for is over"
            )

    async def end(self) -> None:
        """Say how to go on."""
        if not self._began:
            return
        again = f"yaffle watch --cloud {self._asked.cloud}"
        line = Line(
            kind=Kind.ENDED,
            text=f"ended; `{again}` goes on from here, `{again} --report` says what it came to",
        )
        await self._say([(line, None)])

    # --- the cloud -------------------------------------------------------------------------------

    async def _first(self) -> tuple[Identity, Sequence[Present]]:
        """Return who we are and what there is; waits for a cloud that is away.

        Raises what time will not mend.
        """
        while True:
            try:
                identity = await self._cloud.call(lambda c: c.identity, CALL_S)
                servers = await self._list()
            except TimeoutError:
                await self._is_away(f"no answer within {CALL_S:g} s")
            except YaffleError as error:
                mend = lasting(error)
                if isinstance(mend, Forbidden):
                    raise Forbidden(str(mend), hint=mend.hint or self._needed()) from None
                if mend is not None:
                    raise mend from None
                await self._is_away(str(error))
            else:
                await self._is_back()
                return identity, servers
            await self._clock.sleep(min(AGAIN_S, self._interval_s))

    def _needed(self) -> str:
        if self._asked.all_projects:
            return "--all-projects needs an administrator's rights; leave it out for one project"
        return "the user needs the role reader (or more) in the project"

    async def _list(self) -> Sequence[Present]:
        groups = self._asked.rule.by is By.SERVER_GROUP
        return await self._parts.nova.present(groups=groups, deadline_s=CALL_S)

    async def _is_away(self, why: str) -> None:
        if self._away_us is not None:
            return
        self._away_us = self._clock.now_us()
        text = f"cloud {self._asked.cloud} does not answer; asking again: {why}"
        more = (("meanwhile", "nothing is known of any server, so Yaffle would do nothing"),)
        await self._say([(Line(kind=Kind.AWAY, text=text, more=more, data={"error": why}), None)])

    async def _is_back(self) -> None:
        if self._away_us is None:
            return
        lasted_s = (self._clock.now_us() - self._away_us) / 1e6
        self._away_us = None
        text = f"cloud {self._asked.cloud} answers again, after {durations.shown(lasted_s)}"
        await self._say(
            [(Line(kind=Kind.BACK, text=text, data={"lasted_s": round(lasted_s, 3)}), None)]
        )

    # --- who comes and goes ----------------------------------------------------------------------

    async def _keep_listing(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                servers = await self._list()
            except TimeoutError:
                await self._is_away(f"no answer within {CALL_S:g} s")
                continue
            except YaffleError as error:
                await self._is_away(str(error))
                continue
            await self._is_back()
            found = await self._compared(servers)
            await self._roll.take_in(found)
            await self._welcome(found)
            await self._settle(found)

    async def _welcome(self, found: Change) -> None:
        """Tell who came."""
        lines: list[tuple[Line, About | None]] = []
        for one in found.new:
            group = found.clusters[one.cluster_id].name
            about = About(node_id=one.node_id, node=one.name, cluster_id=one.cluster_id)
            text = f"{one.name} ({group}) is new, and watched from now on"
            data = {"server": one.server.physical_id, "node": one.name, "group": group}
            lines.append((Line(kind=Kind.ARRIVED, text=text, data=data), about))
        await self._say(lines)

    async def _compared(self, servers: Sequence[Present]) -> Change:
        known = await self._roll.known()
        for server in servers:
            project = str(server.facts.get("project_id", ""))
            if project not in self._projects:
                self._projects = {**self._projects, project: project}
        kind = self._parts.nova.type
        return change(kind, self._asked.rule, servers, self._projects, known)

    async def _settle(self, found: Change) -> None:
        """Let go of servers that somebody deleted, and of those that another one heals by now."""
        for row in found.taken_over:
            await self._let_go(row, "some Yaffle or Senlin has made it a node of its own")
        asked = self._asked_for
        for row in sorted(found.missing, key=lambda r: asked.get(r.id, 0))[:CAUSES]:
            asked[row.id] = self._clock.now_us()
            if why := await self._why_gone(row):
                await self._let_go(row, why)
        for ident in asked.keys() - {row.id for row in found.missing}:
            del asked[ident]

    async def _why_gone(self, row: NodeRow) -> str:
        """Return why a server is to be watched no more; empty while it is to be.

        One that nobody is known to have deleted stays for a while: to the engine it is a failure,
        which is decided upon and told.
        """
        target = Target(
            node_id=row.id,
            name=row.name,
            physical_id=row.physical_id,
            profile_type=self._parts.nova.type,
            spec={},
        )
        (reading,) = await self._parts.nova.read([target], deadline_s=CAUSE_S)
        if reading.exists:
            return ""
        cause = await self._parts.nova.cause(target, deadline_s=CAUSE_S)
        if cause.actor is Actor.USER:
            return f"somebody deleted it, no failure: {cause.detail}"
        gone_us = row.health_us if row.health == Health.UNHEALTHY else None
        if gone_us is None or self._clock.now_us() - gone_us < GONE_KEPT_US:
            return ""
        return f"it is gone for {durations.shown(GONE_KEPT_US / 1e6)}: {cause.detail}"

    async def _let_go(self, row: NodeRow, why: str) -> None:
        await self._roll.let_go(row, why)
        about = About(node_id=row.id, node=row.name, cluster_id=row.cluster_id or "")
        data = {"server": row.physical_id, "node": row.name}
        text = f"{row.name} is watched no more: {why}"
        await self._say([(Line(kind=Kind.GONE, text=text, data=data), about)])

    # --- telling ---------------------------------------------------------------------------------

    async def _keep_telling(self, teller: Teller) -> None:
        while True:
            await self._clock.sleep(TELL_S)
            try:
                await teller.turn()
            except StoreUnavailable as error:
                # The disk is full, or somebody copies the file: the engine waits for it, too.
                aside(f"yaffle: {error}", as_json=self._asked.as_json)

    async def _say(self, lines: Sequence[tuple[Line, About | None]]) -> None:
        """Keep lines, then print them."""
        if not lines:
            return
        now_us = self._clock.now_us()

        def keep(conn: Connection) -> None:
            for line, about in lines:
                report_store.keep(conn, line, now_us, about)

        await self._parts.ctx.store.write(keep)
        self._print([(line, now_us) for line, _ in lines])

    def _print(self, lines: Sequence[tuple[Line, int]]) -> None:
        if self._asked.as_json:
            for line, at_us in lines:
                print(json.dumps(line.as_json(at_us), ensure_ascii=False, default=str), flush=True)
            return
        for line, at_us in calm(lines):
            print(clean(line.shown(at_us)), flush=True)


def aside(words: str, *, as_json: bool) -> None:
    """Say what is no line of the watch: beside its lines, where a program reads those."""
    print(clean(words), file=sys.stderr if as_json else sys.stdout, flush=True)
