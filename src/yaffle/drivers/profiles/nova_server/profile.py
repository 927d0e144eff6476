"""The profile as the engine sees it: every call in a thread of the cloud's pool, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import structlog

from yaffle.drivers.profiles.nova_server import diagnostics
from yaffle.drivers.profiles.nova_server import spec as specs
from yaffle.drivers.profiles.nova_server.api.nova import Nova
from yaffle.drivers.profiles.nova_server.inventory import adoption, listing
from yaffle.drivers.profiles.nova_server.operations import (
    create,
    delete,
    discard_image,
    disk_image,
    evacuate,
    inplace,
    preflight,
    rebuild,
    update,
)
from yaffle.drivers.profiles.nova_server.schema import SCHEMA
from yaffle.drivers.profiles.nova_server.settings import NovaSettings
from yaffle.drivers.profiles.nova_server.status import (
    action_attribution,
    evacuation_cleanup,
    hypervisors,
    reading,
)
from yaffle.drivers.profiles.nova_server.tracking import verbs
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ServerOperation,
    failed,
    of_error,
    running,
    unasked,
)
from yaffle.drivers.profiles.nova_server.tracking.verbs import CURES
from yaffle.errors import YaffleError
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import (
    Client,
    Cloud,
    CredentialMissing,
    CredentialRefused,
    Projects,
)
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.server_cache import ServerCache
from yaffle.integrations.openstack.servers.stuck_tasks import Tasks
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    ActsIn,
    Cause,
    HostReading,
    Inspection,
    InspectionState,
    Operation,
    OperationSpec,
    Outlook,
    Present,
    Progress,
    Promise,
    Prospect,
    Reading,
    Target,
    Vacated,
)
from yaffle.model.properties import Schema
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.integrations.openstack.servers.documents import Service
    from yaffle.ports.profile import (
        Profile,
        SupportsAdoption,
        SupportsCauseLookup,
        SupportsDescription,
        SupportsEvacuationStatus,
        SupportsHostNames,
        SupportsHostStatus,
        SupportsInventory,
        SupportsPooledReads,
        SupportsPreflight,
        SupportsProjects,
        SupportsReservedHosts,
        SupportsUndo,
    )

log = structlog.get_logger()

T = TypeVar("T")
Step = Callable[[ServerOperation], Progress]

_STEPS: Final[Mapping[str, tuple[Step, Step]]] = {
    **dict.fromkeys(verbs.VERBS, (inplace.submit, inplace.poll)),
    verbs.CREATE: (create.submit, create.poll),
    verbs.DELETE: (delete.submit, delete.poll),
    verbs.KILL: (delete.submit, delete.poll),
    verbs.REBUILD: (rebuild.submit, rebuild.poll),
    verbs.UPDATE: (update.submit, update.poll),
    verbs.EVACUATE: (evacuate.submit, evacuate.poll),
    verbs.SNAPSHOT: (disk_image.submit, disk_image.poll),
    verbs.DISCARD: (discard_image.submit, discard_image.poll),
}


class NovaServer:
    """Servers of an OpenStack cloud; what an engine must know of an operation, the server bears."""

    type: ClassVar[str] = "os.nova.server-1.0"
    promises: ClassVar[frozenset[Promise]] = frozenset(
        {
            Promise.DEDUPLICATES,
            Promise.CONFIRMS_DELETE,
            Promise.SURVIVES_ENGINE,
            Promise.GONE_FOR_GOOD,
        }
    )
    operations: ClassVar[Mapping[str, OperationSpec]] = verbs.OPERATIONS
    schema: ClassVar[Schema] = SCHEMA
    cures: ClassVar[Mapping[str, str]] = CURES

    def __init__(
        self, context: DriverContext, *, cloud: Cloud | None = None, shared_s: float = 0.0
    ) -> None:
        section = Section(context.section or f'drivers."{self.type}"', context.settings)
        self._settings = NovaSettings.read(section)
        self._clock = context.clock
        full_s = self._settings.full_sweep_s
        self._projects = Projects(
            self._settings.choice,
            context.clock,
            lambda: ServerCache(context.clock, full_s=full_s, shared_s=shared_s),
            credentials=context.credentials,
            cloud=cloud,
        )
        self._memory = SentRequests()
        self._tasks = Tasks(context.clock, self._settings.bounds)

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
        return specs.validate(spec)

    def pool(self, target: Target) -> str:
        """Name the session whose list has it."""
        return self._projects.pool(target)

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each server is, in order."""

        every = self._settings.all_projects

        def work(client: Client, census: ServerCache, some: Sequence[Target]) -> Sequence[Reading]:
            nova = self._nova(client)
            where = self._where()
            seen = reading.read(nova, census, self._tasks, some, all_projects=every, where=where)
            return adoption.followed(nova, some, seen, where)

        return await self._projects.each(targets, work, reading.unclear, deadline_s)

    async def hosts(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[HostReading]:
        """Say, in order, how the machine under each server is."""

        def work(
            client: Client, census: ServerCache, some: Sequence[Target]
        ) -> Sequence[HostReading]:
            return hypervisors.hosts(self._nova(client), census, some)

        def unclear(_: Target, why: str) -> HostReading:
            return HostReading(name="", up=None, detail=why)

        return await self._projects.each(targets, work, unclear, deadline_s)

    async def has_host(self, host: str, *, deadline_s: float) -> bool | str:
        """Say whether a nova-compute runs, or ran, on a host of that name."""
        try:
            found = await self._ask(lambda n: _service_of(n, host), deadline_s)
        except (TimeoutError, YaffleError) as error:
            return _why(error, deadline_s)
        return found if isinstance(found, str) else found is not None

    async def open_host(self, host: str, target: Target, *, deadline_s: float) -> bool | str:
        """Enable the nova-compute of a host, if that is up."""

        def work(nova: Nova) -> bool | str:
            service = _service_of(nova, host)
            if isinstance(service, str):
                return service
            if service is None or not service.up:
                return False
            if service.status != "enabled":
                nova.enable(service)
            return True

        try:
            return await self._ask(work, deadline_s, target.project)
        except (TimeoutError, YaffleError) as error:
            return _why(error, deadline_s)

    async def vacated(self, host: str, targets: Sequence[Target], *, deadline_s: float) -> Vacated:
        """Say how a host is that servers were moved off, and what is left of them there."""
        try:
            project = targets[0].project if targets else ""
            return await self._ask(
                lambda n: evacuation_cleanup.vacated(n, host, targets), deadline_s, project
            )
        except (TimeoutError, YaffleError) as error:
            return evacuation_cleanup.unclear(host, _why(error, deadline_s))

    async def admit(self, host: str, target: Target, *, deadline_s: float) -> str:
        """Take back that a host is forced down, where the settings say that Yaffle may."""
        if not self._settings.admit_hosts:
            return ""
        try:
            return await self._ask(
                lambda n: evacuation_cleanup.admit(n, host), deadline_s, target.project
            )
        except (TimeoutError, YaffleError) as error:
            log.warning("host not admitted", host=host, why=_why(error, deadline_s))
            return ""

    async def present(self, *, groups: bool, deadline_s: float) -> Sequence[Present]:
        """Return every server that we may see; of one project where each has a credential."""
        return await self._with(
            lambda n, census: listing.present(n, census, groups=groups), deadline_s
        )

    async def cause(self, target: Target, *, deadline_s: float) -> Cause:
        """Say who brought the server into the state it is in."""
        try:
            return await self._ask(
                lambda n: action_attribution.cause(n, self._memory, target),
                deadline_s,
                target.project,
            )
        except (TimeoutError, YaffleError) as error:
            return action_attribution.unasked(_why(error, deadline_s))

    async def submit(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Begin an operation, or say how far it is when it has been begun."""
        return await self._step(op, operation_id, 0, deadline_s)

    async def poll(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Say how far an operation is, and move on one that has several steps."""
        return await self._step(op, operation_id, 1, deadline_s)

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        """Say whether Nova would refuse to make the server, or to make it anew."""

        def work(nova: Nova, census: ServerCache) -> Prospect:
            job = self._job(op, OperationId(""), nova, census)
            if elsewhere := self._elsewhere(job):
                return Prospect(outlook=Outlook.IMPOSSIBLE, detail=elsewhere.detail)
            return preflight.foresee(job)

        try:
            return await self._with(work, deadline_s, op.target.project)
        except (TimeoutError, YaffleError) as error:
            return Prospect(outlook=Outlook.UNKNOWN, detail=_why(error, deadline_s))

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return state, acts and console."""
        try:
            return await self._ask(
                lambda nova: diagnostics.capture(nova, target), deadline_s, target.project
            )
        except (TimeoutError, YaffleError) as error:
            return f"no evidence: {_why(error, deadline_s)}"

    async def describe(self, target: Target, *, deadline_s: float) -> Mapping[str, object]:
        """Return what Nova shows of the server."""
        try:
            return await self._ask(
                lambda nova: diagnostics.describe(nova, target, self._where()),
                deadline_s,
                target.project,
            )
        except (TimeoutError, YaffleError) as error:
            return {"unclear": _why(error, deadline_s)}

    async def inspect(
        self,
        identity: str,
        *,
        overrides: Mapping[str, object],
        snapshot: bool,
        deadline_s: float,
        project: str = "",
    ) -> Inspection:
        """Say what a server is that a node may be made of."""
        return await self._inspection(
            lambda nova: adoption.inspect(
                nova,
                identity,
                overrides=overrides,
                snapshot=snapshot,
                where=self._where(),
                project=self._home(nova),
            ),
            deadline_s,
            project,
        )

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        """Mark a server as the copy of a node."""
        return await self._inspection(
            lambda nova: adoption.adopt(
                nova, target, where=self._where(), project=self._home(nova)
            ),
            deadline_s,
            target.project,
        )

    async def acts_in(self, *, deadline_s: float) -> ActsIn:
        """Say in which project it acts."""
        return await self._projects.acts_in(deadline_s)

    async def _inspection(
        self, work: Callable[[Nova], Inspection], deadline_s: float, project: str
    ) -> Inspection:
        try:
            return await self._ask(work, deadline_s, project)
        except (TimeoutError, YaffleError) as error:
            return Inspection(state=InspectionState.UNKNOWN, detail=_why(error, deadline_s))

    async def _step(
        self, op: Operation, operation_id: OperationId, which: int, deadline_s: float
    ) -> Progress:
        steps = _STEPS.get(op.kind)
        if steps is None:
            return failed(f"{self.type} has no operation {op.kind}")

        def work(nova: Nova, census: ServerCache) -> Progress:
            # Also while an earlier call waits for a list: it is the same try.
            self._memory.trying(operation_id, self._clock.monotonic_s())
            with self._memory.alone(operation_id) as mine:
                if not mine:
                    return unasked("an earlier request for it is still on its way")
                job = self._job(op, operation_id, nova, census)
                early = None if which else job.too_soon()
                try:
                    return early or self._elsewhere(job) or steps[which](job)
                except YaffleError as error:
                    return of_error(error)

        try:
            return await self._with(work, deadline_s, op.target.project)
        except (CredentialMissing, CredentialRefused) as error:
            # Of what may have been sent before, whoever can log in again finds out.
            begun = which or self._memory.may_have_arrived(operation_id)
            return running(str(error)) if begun else failed(f"{op.kind} was not begun: {error}")
        except (TimeoutError, YaffleError) as error:
            return unasked(_why(error, deadline_s))

    def _job(
        self, op: Operation, operation_id: OperationId, nova: Nova, census: ServerCache
    ) -> ServerOperation:
        return ServerOperation(
            op=op,
            operation_id=operation_id,
            nova=nova,
            census=census,
            memory=self._memory,
            tasks=self._tasks,
            clock=self._clock,
            facts=self._where(),
            kept=self._settings.kept,
        )

    def _elsewhere(self, job: ServerOperation) -> Progress | None:
        """Return the answer for a node of another project: nothing is done, nothing is believed."""
        if self._settings.all_projects or reading.PROJECT not in job.target.attributes:
            return None
        why = reading.foreign(job.target.attributes, job.nova.client.project_id)
        return failed(f"{job.op.kind}: {why}") if why else None

    def _home(self, nova: Nova) -> str | None:
        """Return whose servers there are for us; None where all projects' are.

        An administrator's credential shows everybody's, which makes them nobody else's to take.
        """
        return None if self._settings.all_projects else nova.client.project_id

    def _where(self) -> Mapping[str, object]:
        """Return what says in which cloud a server is."""
        return self._projects.where

    async def _ask(self, work: Callable[[Nova], T], deadline_s: float, project: str = "") -> T:
        return await self._with(lambda nova, _: work(nova), deadline_s, project)

    async def _with(
        self, work: Callable[[Nova, ServerCache], T], deadline_s: float, project: str = ""
    ) -> T:
        return await self._projects.call(
            project, lambda client, census: work(self._nova(client), census), deadline_s
        )

    def _nova(self, client: Client) -> Nova:
        return Nova(client, all_projects=self._settings.all_projects)


def _service_of(nova: Nova, host: str) -> Service | str | None:
    """Return the nova-compute of a host; None where Nova knows none, or why that cannot be told."""
    found = nova.services()
    if found is None:
        return "this credential may not list hosts"
    if host not in found and nova.cells_away():
        return "Nova cannot reach one of its cells, and that host may be there"
    return found.get(host)


def _why(error: TimeoutError | YaffleError, deadline_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer of the cloud within {deadline_s:g} s"
    return str(error)


if TYPE_CHECKING:
    _conforms: type[Profile] = NovaServer
    _describes: type[SupportsDescription] = NovaServer
    _adopts: type[SupportsAdoption] = NovaServer
    _shares: type[SupportsProjects] = NovaServer
    _hosted: type[SupportsHostStatus] = NovaServer
    _traces: type[SupportsCauseLookup] = NovaServer
    _foresees: type[SupportsPreflight] = NovaServer
    _pools: type[SupportsPooledReads] = NovaServer
    _lists: type[SupportsInventory] = NovaServer
    _cures: type[SupportsUndo] = NovaServer
    _knows: type[SupportsHostNames] = NovaServer
    _opens: type[SupportsReservedHosts] = NovaServer
    _vacates: type[SupportsEvacuationStatus] = NovaServer
