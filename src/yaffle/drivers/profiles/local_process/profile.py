"""The profile as the engine sees it: every call in a thread of its own small pool, never the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from yaffle.config.faults import quoted
from yaffle.drivers.profiles.local_process import spec as specs
from yaffle.drivers.profiles.local_process.capture import capture
from yaffle.drivers.profiles.local_process.describing import describe
from yaffle.drivers.profiles.local_process.folder import Busy, Folder
from yaffle.drivers.profiles.local_process.launch import cut
from yaffle.drivers.profiles.local_process.plans import OPERATIONS
from yaffle.drivers.profiles.local_process.preflight import foresee
from yaffle.drivers.profiles.local_process.process_table import Passes
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable
from yaffle.drivers.profiles.local_process.reading import Reader
from yaffle.drivers.profiles.local_process.schema import SCHEMA
from yaffle.drivers.profiles.local_process.worker import Worker
from yaffle.errors import DependencyError
from yaffle.integrations.driver_settings import Section
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    Inspection,
    InspectionState,
    Operation,
    OperationSpec,
    Outlook,
    Progress,
    ProgressState,
    Promise,
    Prospect,
    Reading,
    Target,
)
from yaffle.model.properties import Schema
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.ports.profile import (
        Profile,
        SupportsAdoption,
        SupportsDescription,
        SupportsOrphanLookup,
        SupportsPreflight,
    )

T = TypeVar("T")

_THREADS: Final = 4
_EYES: Final = 4
_BUSY_S: Final = 0.05
_METHOD: Final = "sigkill+procfs"
# A process learns its environment once, when it begins. One that we did not start bears no marker,
# nor does anything that it forks or forks later: of a child that left its session nobody could say
# whose it is, so that no deletion could be proved and a second copy might run beside it.
_STRANGER: Final = Inspection(
    state=InspectionState.REFUSED,
    detail="a process that Yaffle did not start bears no marker, so what it leaves behind could"
    " never be proved gone; create a node from a profile with the same command instead",
)
_SHARE: Final = 0.9
"""Of the deadline is the thread's, so that its answer still finds the caller waiting."""


class LocalProcess:
    """Processes of this machine; the state directory is the backend."""

    type: ClassVar[str] = "yaffle.local.process-1.0"
    promises: ClassVar[frozenset[Promise]] = frozenset(
        {
            Promise.DEDUPLICATES,
            Promise.CONFIRMS_DELETE,
            Promise.SURVIVES_ENGINE,
            Promise.STAYS_AT_HOME,
        }
    )
    operations: ClassVar[Mapping[str, OperationSpec]] = OPERATIONS
    schema: ClassVar[Schema] = SCHEMA

    def __init__(self, context: DriverContext, *, procfs: Procfs | None = None) -> None:
        Section(f"drivers.{quoted(self.type)}", context.settings).finish()
        self._clock = context.clock
        self._home = context.home
        # Absolute: it is handed to processes that run elsewhere.
        self._state_dir = context.state_dir.absolute()
        self._procfs = procfs if procfs is not None else Procfs()
        self._passes = Passes(self._procfs)
        self._cutting = threading.Lock()
        self._worker = Worker(self._state_dir, self._procfs, self._clock, self._passes)
        # Its own pools: a disk that hangs must not take the threads of everybody else, and many
        # operations at once must not keep anybody from being looked at.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="yaffle-local-process")
        self._eyes = ThreadPoolExecutor(_EYES, thread_name_prefix="yaffle-local-look")

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
        return specs.validate(spec)

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each process is, in order; of another machine's we know nothing."""
        reader = Reader(self._state_dir, self._procfs, self._passes)
        ours = [target for target in targets if not self._foreign(target)]

        def look() -> Sequence[Reading]:
            found = reader.read(ours)
            self._cut_logs(ours)
            return found

        try:
            found = iter(await self._look(look, deadline_s))
        except TimeoutError:
            late = f"no answer from this machine's disk or /proc within {deadline_s:g} s"
            found = iter([_unseen("unclear", late) for _ in ours])
        return [
            _unseen("elsewhere", why) if (why := self._foreign(target)) else next(found)
            for target in targets
        ]

    async def submit(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Begin; where another engine holds the node's lock, try for as long as the deadline."""
        return self._refused(op) or await self._progress(
            lambda until_s: self._worker.submit(op, operation_id, until_s), deadline_s, insist=True
        )

    async def poll(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Look, and move the operation along."""
        return self._refused(op) or await self._progress(
            lambda until_s: self._worker.poll(op, operation_id, until_s), deadline_s, insist=False
        )

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        """Say whether the process could be started anew."""
        if why := self._foreign(op.target):
            return Prospect(outlook=Outlook.IMPOSSIBLE, detail=why)
        try:
            return await self._look(lambda: foresee(self._state_dir, op), deadline_s)
        except TimeoutError:
            late = f"no answer from this machine's disk within {deadline_s:g} s"
            return Prospect(outlook=Outlook.UNKNOWN, detail=late)

    async def strays(self, known: Container[str], *, deadline_s: float) -> Sequence[str]:
        """Name the processes that were started from this state directory, by pid and node."""

        def look() -> Sequence[str]:
            seen = self._passes.take()
            here = {folder.name for folder in self._state_dir.glob("nodes/*")}
            return [
                f"pid {stat.pid} ({stat.command}) of node {node}"
                for stat in seen.living
                if (node := seen.nodes.get(stat.pid)) in here and node not in known
            ]

        try:
            return await self._look(look, deadline_s)
        except ProcUnreadable as error:
            raise DependencyError(str(error)) from error

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return the process list and the last 16 KiB of the log."""
        if why := self._foreign(target):
            return f"no evidence: {why}"
        try:
            folder = Folder(self._state_dir, target.node_id)
            return await self._look(lambda: capture(folder, self._procfs), deadline_s)
        except TimeoutError:
            return f"no evidence within {deadline_s:g} s"
        except ValueError as error:
            return f"no evidence: {error}"

    async def describe(self, target: Target, *, deadline_s: float) -> Mapping[str, object]:
        """Return pid, command, start and place of the present process."""
        if why := self._foreign(target):
            return {"unclear": why}

        def work() -> Mapping[str, object]:
            return describe(
                self._state_dir,
                self._procfs,
                target,
                now_us=self._clock.now_us(),
                uptime_s=self._procfs.uptime_s(),
            )

        try:
            return await self._look(work, deadline_s)
        except (TimeoutError, ProcUnreadable) as error:
            return {"unclear": str(error) or f"no answer within {deadline_s:g} s"}

    async def inspect(
        self,
        identity: str,
        *,
        overrides: Mapping[str, object],
        snapshot: bool,
        deadline_s: float,
        project: str = "",
    ) -> Inspection:
        """Refuse, whatever it is: a stranger's children cannot be told."""
        return _STRANGER

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        """Refuse as `inspect` does."""
        return _STRANGER

    def _cut_logs(self, targets: Sequence[Target]) -> None:
        """Keep the logs of those that run for long from filling the disk."""
        with self._cutting:
            for target in targets:
                # Of no reading's business: a disk without room for the copy keeps what there is.
                with suppress(OSError, ValueError):
                    cut(Folder(self._state_dir, target.node_id).log)

    def _foreign(self, target: Target) -> str:
        return "" if self._home is None else self._home.foreign(target.attributes)

    def _refused(self, op: Operation) -> Progress | None:
        """Return the answer for a node of another machine: nothing is done, nothing is believed."""
        why = self._foreign(op.target)
        return Progress(state=ProgressState.FAILED, detail=f"{op.kind}: {why}") if why else None

    async def _progress(
        self, work: Callable[[float], Progress], deadline_s: float, *, insist: bool
    ) -> Progress:
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    try:
                        return self._stamped(await self._call(work, deadline_s))
                    except Busy as busy:
                        if not insist:
                            return Progress(state=ProgressState.RUNNING, detail=f"busy: {busy}")
                    await self._clock.sleep(_BUSY_S)
        except TimeoutError:
            late = f"busy: no answer within {deadline_s:g} s; the step may still be under way"
            return Progress(state=ProgressState.RUNNING, detail=late)

    def _stamped(self, progress: Progress) -> Progress:
        """Return it with our home among the facts: they replace what is stored of the node."""
        progress = replace(progress, method=_METHOD)
        if progress.attributes is None or self._home is None:
            return progress
        return replace(progress, attributes={**progress.attributes, **self._home.stamp()})

    async def _call(self, work: Callable[[float], T], deadline_s: float) -> T:
        until_s = self._clock.monotonic_s() + deadline_s * _SHARE
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(deadline_s):
            return await loop.run_in_executor(self._threads, work, until_s)

    async def _look(self, work: Callable[[], T], deadline_s: float) -> T:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(deadline_s):
            return await loop.run_in_executor(self._eyes, work)


def _unseen(status: str, detail: str) -> Reading:
    return Reading(exists=True, up=None, backend_status=status, detail=detail, asked=False)


if TYPE_CHECKING:
    _conforms: type[Profile] = LocalProcess
    _describes: type[SupportsDescription] = LocalProcess
    _foresees: type[SupportsPreflight] = LocalProcess
    _finds: type[SupportsOrphanLookup] = LocalProcess
    _adopts: type[SupportsAdoption] = LocalProcess
