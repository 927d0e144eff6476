"""MISTRAL_WORKFLOW: an execution under the operation's own id, read until it has ended (seed 1).

Mistral answers a second request for the same id with the execution that is there, so sending again
is always safe, as long as it keeps executions for longer than a workflow takes. Rules for what is
not known are those of HTTP workflows: silence is RUNNING, never FAILED, since the workflow may be at
work. One that is not over shortly before its timeout is cancelled, and has failed only once that is
read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from yaffle.drivers.workflows.mistral.executions import Execution, Note
from yaffle.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidSpec,
    NotFound,
)
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import one_line, to_json
from yaffle.integrations.openstack import (
    Client,
    CloudUnavailable,
    CredentialMissing,
    CredentialRefused,
    Projects,
    read_choice,
)
from yaffle.model.ids import OperationId
from yaffle.model.operations import ActsIn, Progress, ProgressState, Promise, Target
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.ports.profile import SupportsProjects
    from yaffle.ports.workflow import Workflow

SERVICE: Final = "workflow"
BODY_MAX: Final = 65_536
"""Of the input; Mistral's own limits are larger."""


class MistralWorkflow:
    """Off unless `drivers.MISTRAL_WORKFLOW` names a cloud."""

    type: ClassVar[str] = "MISTRAL_WORKFLOW"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.DEDUPLICATES})

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        self._projects: Projects[None] | None = None
        self._in_place: tuple[str, ...] = ()
        if context.settings:
            section = Section(f"drivers.{self.type}", context.settings)
            choice = read_choice(section)
            if section.raw("in_place") is not None:
                self._in_place = section.texts("in_place")
            section.finish()
            self._projects = Projects(
                choice, context.clock, lambda: None, credentials=context.credentials
            )

    def in_place(self, name: str) -> bool:
        """Whether the operator vouches that `name` cannot create a second copy."""
        return name in self._in_place

    async def acts_in(self, *, deadline_s: float) -> ActsIn:
        """Say in which project workflows run; in nobody's where none is named."""
        if self._projects is None:
            return ActsIn(per_project=True)
        return await self._projects.acts_in(deadline_s)

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Raise InvalidSpec naming every fault; whether the workflow exists is Mistral's to say."""
        problems = [fault for fault in (self._fault(), _unfit(params)) if fault]
        if problems:
            raise InvalidSpec(problems)

    async def submit(
        self,
        name: str,
        params: Mapping[str, object],
        target: Target,
        *,
        operation_id: OperationId,
        timeout_s: float,
        deadline_s: float,
    ) -> Progress:
        """Begin it, or report on it if this operation id was submitted before."""
        if (projects := self._projects) is None:
            return Progress.not_begun(self._fault())
        if fault := _unfit(params):
            return Progress(state=ProgressState.FAILED, detail=fault)
        note = Note(
            yaffle_operation=operation_id,
            node=f"{target.name} ({target.node_id})",
            cluster=target.cluster_name,
            timeout_s=timeout_s,
        )
        asked = {
            "id": operation_id,
            "workflow_name": name,
            "input": dict(params),
            "description": msgspec.json.encode(note).decode(),
        }

        def begin(client: Client, _: None) -> Execution:
            answer = client.act("POST", SERVICE, "/executions", body=asked)
            return answer.parsed(Execution)

        try:
            return (await projects.call(target.project, begin, deadline_s)).progress()
        except (NotFound, BadRequest) as refused:
            # Nothing was begun: no such workflow, or an input that it does not take.
            return Progress(
                state=ProgressState.FAILED, detail=one_line(f"workflow {name}: {refused}")
            )
        except (Forbidden, CredentialMissing, CredentialRefused) as refused:
            # That we may not ask is no word of the workflow.
            return Progress.not_begun(one_line(f"workflow {name}: {refused}"))
        except (Conflict, CloudUnavailable, TimeoutError) as error:
            return _unknown(name, error)

    async def poll(
        self, name: str, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Ask for the execution; cancel one that has outlived its timeout."""
        projects = self._projects
        if projects is None:
            # Switched off while it ran: what has become of it is not known.
            return Progress(state=ProgressState.RUNNING, detail=f"cannot be asked: {self._fault()}")
        path = f"/executions/{operation_id}"

        def look(client: Client, _: None) -> Progress:
            found = client.get(SERVICE, path).parsed(Execution)
            progress = found.progress()
            if progress.state is not ProgressState.RUNNING or not found.is_late(
                self._clock.now_us()
            ):
                return progress
            ended = client.act("PUT", SERVICE, path, body={"state": "CANCELLED"}).parsed(Execution)
            return ended.progress()

        try:
            return await projects.call(target.project, look, deadline_s)
        except NotFound:
            return Progress(
                state=ProgressState.ABSENT, detail=f"Mistral has no execution {operation_id}"
            )
        except (BadRequest, Forbidden, Conflict, CloudUnavailable, TimeoutError) as error:
            return _unknown(name, error)

    def _fault(self) -> str:
        if self._projects is not None:
            return ""
        return (
            "Mistral workflows are off; an administrator turns them on with"
            f' drivers.{self.type}.cloud = "NAME", a cloud of clouds.yaml'
        )


def _unknown(name: str, error: Exception) -> Progress:
    said = str(error) or "no answer in time"
    text = one_line(f"workflow {name}: not known how far it is: {said}")
    return Progress(state=ProgressState.RUNNING, detail=text)


def _unfit(params: Mapping[str, object]) -> str:
    try:
        size = len(to_json(params))
    except (TypeError, ValueError) as error:
        return f"params have no JSON form: {one_line(str(error))}"
    return f"params are {size} bytes, more than {BODY_MAX}" if size > BODY_MAX else ""


if TYPE_CHECKING:
    _conforms: type[Workflow] = MistralWorkflow
    _shares: type[SupportsProjects] = MistralWorkflow
