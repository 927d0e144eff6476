"""The profile as the engine sees it: every call in a thread of the cloud's pool, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from yaffle.drivers.profiles.heat_stack import action_attribution, adoption, diagnostics
from yaffle.drivers.profiles.heat_stack import spec as specs
from yaffle.drivers.profiles.heat_stack.api.heat import Heat
from yaffle.drivers.profiles.heat_stack.operations import create, delete, preflight, update, verbs
from yaffle.drivers.profiles.heat_stack.operations.operation import (
    StackOperation,
    failed,
    of_error,
    running,
    unasked,
)
from yaffle.drivers.profiles.heat_stack.operations.termination_proofs import Proofs
from yaffle.drivers.profiles.heat_stack.schema import SCHEMA
from yaffle.drivers.profiles.heat_stack.settings import HeatSettings
from yaffle.drivers.profiles.heat_stack.status.member_cache import Roster
from yaffle.drivers.profiles.heat_stack.status.member_status import unclear
from yaffle.drivers.profiles.heat_stack.status.reading import Reader, foreign
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
from yaffle.integrations.openstack.servers.queries import Servers
from yaffle.integrations.openstack.servers.server_cache import ServerCache
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    ActsIn,
    Cause,
    Inspection,
    InspectionState,
    Operation,
    OperationSpec,
    Outlook,
    Progress,
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
        SupportsCauseLookup,
        SupportsDescription,
        SupportsPooledReads,
        SupportsPreflight,
        SupportsProjects,
    )

T = TypeVar("T")
Step = Callable[[StackOperation], Progress]

_STEPS: Final[Mapping[str, tuple[Step, Step]]] = {
    verbs.CREATE: (create.submit, create.poll),
    verbs.DELETE: (delete.submit, delete.poll),
    verbs.UPDATE: (update.submit, update.poll),
    verbs.STACK_UPDATE: (update.submit, update.poll),
}
_ADOPTED_POLL_S: Final = 0.5
_CALL_MIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Memory of the cloud as one session shows it."""

    census: ServerCache
    roster: Roster


class HeatStack:
    """Stacks of an OpenStack cloud; what an engine must know of an operation, the stack bears."""

    type: ClassVar[str] = "os.heat.stack-1.0"
    promises: ClassVar[frozenset[Promise]] = frozenset(
        {Promise.DEDUPLICATES, Promise.CONFIRMS_DELETE, Promise.SURVIVES_ENGINE}
    )
    operations: ClassVar[Mapping[str, OperationSpec]] = verbs.OPERATIONS
    schema: ClassVar[Schema] = SCHEMA

    def __init__(self, context: DriverContext, *, cloud: Cloud | None = None) -> None:
        section = Section(context.section or f'drivers."{self.type}"', context.settings)
        self._settings = HeatSettings.read(section)
        self._clock = context.clock
        full_s = self._settings.full_sweep_s
        self._projects = Projects(
            self._settings.choice,
            context.clock,
            lambda: Known(census=ServerCache(context.clock, full_s=full_s), roster=Roster()),
            credentials=context.credentials,
            cloud=cloud,
        )
        self._memory = SentRequests()
        self._proofs = Proofs()

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
        return specs.validate(spec)

    def pool(self, target: Target) -> str:
        """Name the session whose list has it."""
        return self._projects.pool(target)

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each stack is, in order."""

        def work(client: Client, known: Known, some: Sequence[Target]) -> Sequence[Reading]:
            return self._reader(client, known).read(some)

        return await self._projects.each(targets, work, unclear, deadline_s)

    async def cause(self, target: Target, *, deadline_s: float) -> Cause:
        """Say who brought the stack into the state it is in."""
        try:
            return await self._projects.call(
                target.project,
                lambda c, known: action_attribution.cause(
                    Heat(c), Servers(c), self._reader(c, known), target
                ),
                deadline_s,
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
        """Say how far an operation is."""
        return await self._step(op, operation_id, 1, deadline_s)

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        """Say whether Heat would refuse to make the stack."""
        if op.kind != verbs.CREATE:
            return Prospect(outlook=Outlook.POSSIBLE, detail="")

        def work(client: Client, _: Known) -> Prospect:
            if why := foreign(op.target.attributes, client.project_id):
                return Prospect(outlook=Outlook.IMPOSSIBLE, detail=why)
            return preflight.foresee(Heat(client), op.target)

        try:
            return await self._projects.call(op.target.project, work, deadline_s)
        except (TimeoutError, YaffleError) as error:
            return Prospect(outlook=Outlook.UNKNOWN, detail=_why(error, deadline_s))

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return state, members and events."""

        def work(client: Client, known: Known) -> str:
            return diagnostics.capture(Heat(client), self._reader(client, known), target)

        try:
            return await self._projects.call(target.project, work, deadline_s)
        except (TimeoutError, YaffleError) as error:
            return f"no evidence: {_why(error, deadline_s)}"

    async def describe(self, target: Target, *, deadline_s: float) -> Mapping[str, object]:
        """Return what Heat shows of the stack."""
        try:
            return await self._projects.call(
                target.project,
                lambda client, _: diagnostics.describe(Heat(client), target, self._where()),
                deadline_s,
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
        """Say what a stack is that a node may be made of."""
        return await self._inspection(
            lambda heat: adoption.inspect(
                heat, identity, overrides=overrides, snapshot=snapshot, where=self._where()
            ),
            deadline_s,
            project,
        )

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        """Mark a stack as the copy of a node, and wait for that as long as there is time."""
        until_s = self._clock.monotonic_s() + deadline_s
        while True:
            left_s = until_s - self._clock.monotonic_s()
            found = await self._inspection(
                lambda heat: adoption.adopt(heat, target, where=self._where()),
                left_s,
                target.project,
            )
            being_marked = found.state is InspectionState.UNKNOWN and found.physical_id
            if not being_marked or left_s < _CALL_MIN_S + _ADOPTED_POLL_S:
                return found
            await self._clock.sleep(_ADOPTED_POLL_S)

    async def acts_in(self, *, deadline_s: float) -> ActsIn:
        """Say in which project it acts."""
        return await self._projects.acts_in(deadline_s)

    async def _inspection(
        self, work: Callable[[Heat], Inspection], deadline_s: float, project: str
    ) -> Inspection:
        try:
            return await self._projects.call(
                project, lambda client, _: work(Heat(client)), deadline_s
            )
        except (TimeoutError, YaffleError) as error:
            return Inspection(state=InspectionState.UNKNOWN, detail=_why(error, deadline_s))

    async def _step(
        self, op: Operation, operation_id: OperationId, which: int, deadline_s: float
    ) -> Progress:
        steps = _STEPS.get(op.kind)
        if steps is None:
            return failed(f"{self.type} has no operation {op.kind}")

        def work(client: Client, known: Known) -> Progress:
            with self._memory.alone(operation_id) as mine:
                if not mine:
                    return unasked("an earlier request for it is still on its way")
                job = self._job(op, operation_id, client, known)
                try:
                    why = foreign(op.target.attributes, client.project_id)
                    return failed(f"{op.kind}: {why}") if why else steps[which](job)
                except YaffleError as error:
                    return of_error(error)

        try:
            return await self._projects.call(op.target.project, work, deadline_s)
        except (CredentialMissing, CredentialRefused) as error:
            # Of what may have been sent before, whoever can log in again finds out.
            begun = which or self._memory.may_have_arrived(operation_id)
            return running(str(error)) if begun else failed(f"{op.kind} was not begun: {error}")
        except (TimeoutError, YaffleError) as error:
            return unasked(_why(error, deadline_s))

    def _job(
        self, op: Operation, operation_id: OperationId, client: Client, known: Known
    ) -> StackOperation:
        return StackOperation(
            op=op,
            operation_id=operation_id,
            heat=Heat(client),
            servers=Servers(client),
            reader=self._reader(client, known),
            memory=self._memory,
            proofs=self._proofs,
            clock=self._clock,
            facts=self._where(),
        )

    def _reader(self, client: Client, known: Known) -> Reader:
        return Reader(
            Heat(client),
            Servers(client),
            known.census,
            known.roster,
            now_s=self._clock.monotonic_s,
            again_s=self._settings.member_sweep_s,
        )

    def _where(self) -> Mapping[str, object]:
        """Return what says in which cloud a stack is."""
        return self._projects.where


def _why(error: TimeoutError | YaffleError, deadline_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer of the cloud within {deadline_s:g} s"
    return str(error)


if TYPE_CHECKING:
    _conforms: type[Profile] = HeatStack
    _describes: type[SupportsDescription] = HeatStack
    _adopts: type[SupportsAdoption] = HeatStack
    _foresees: type[SupportsPreflight] = HeatStack
    _pools: type[SupportsPooledReads] = HeatStack
    _shares: type[SupportsProjects] = HeatStack
    _traces: type[SupportsCauseLookup] = HeatStack
