"""COMMAND workflows: a policy names a program that the operator has allowed, and never more.

The program gets JSON on stdin: `{"operation_id", "command", "timeout_s", "node": {"id", "name",
"physical_id", "cluster_id", "cluster_name", "profile_type", "attributes"}, "params"}`. Exit 0 is
done, anything else failed; the last line of stderr says why. Whatever it leaves running is killed
when it ends: a daemon belongs to an init system. It outlives the engine, so a systemd unit of the
engine needs `KillMode=process`; `TasksMax=` there bounds how many processes a program may fork.

The promise DEDUPLICATES holds per `state_dir`: engines on several machines that may run commands
must share it (with working flock), or have commands enabled on one of them only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.drivers.workflows.command.jobs import Jobs
from yaffle.drivers.workflows.command.settings import PATH, Command, CommandSettings
from yaffle.errors import ConfigError, InvalidSpec
from yaffle.integrations.driver_settings import Section, read_secret
from yaffle.integrations.http import one_line, to_json
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState, Promise, Target
from yaffle.ports.context import DriverContext
from yaffle.ports.workflow import Workflow

INPUT_MAX: Final = 262_144
NOFILE: Final = 1024


class CommandWorkflow:
    """Off unless `drivers.COMMAND.enabled`; each job is run by a process of its own."""

    type: ClassVar[str] = "COMMAND"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.DEDUPLICATES})

    def __init__(self, context: DriverContext) -> None:
        self._settings = CommandSettings.read(Section("drivers.COMMAND", context.settings))
        self._jobs = Jobs(root=context.state_dir / "workflows" / "command")

    def in_place(self, name: str) -> bool:
        """Whether the operator vouches that `name` cannot create a second copy."""
        command = self._settings.commands.get(name)
        return command is not None and command.in_place

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Raise InvalidSpec naming every fault."""
        problems = [fault for fault in (self._fault(name), _unfit(params)) if fault]
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
        """Start the program, or report on it if this operation id was submitted before."""
        if fault := self._fault(name):
            return Progress.not_begun(fault)
        if fault := _unfit(params):
            return Progress(state=ProgressState.FAILED, detail=fault)
        command = self._settings.commands[name]
        bound_s = min(timeout_s, command.timeout_s)
        try:
            secrets = _secrets(command)
            request = {
                "argv": list(command.argv),
                "env": {"PATH": PATH, "LANG": "C.UTF-8", **command.env, **secrets},
                "hidden": list(secrets.values()),
                "input": _input(name, params, target, operation_id, bound_s),
                "timeout_s": bound_s,
                "max_output": command.max_output,
                "nofile": NOFILE,
            }
            await asyncio.to_thread(self._jobs.launch, operation_id, request, deadline_s)
        except (ConfigError, OSError) as error:
            return Progress.not_begun(one_line(f"could not start {name!r}: {error}"))
        await asyncio.to_thread(self._jobs.prune)
        progress = await self._look(operation_id)
        if progress.state is ProgressState.ABSENT:
            detail = f"the runner of {name!r} did not start within {deadline_s:g} s; nothing ran"
            return Progress.not_begun(detail)
        return progress

    async def poll(
        self, name: str, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Read the job's directory; works in an engine that never saw the submit."""
        return await self._look(operation_id)

    async def _look(self, operation_id: OperationId) -> Progress:
        try:
            return await asyncio.to_thread(self._jobs.look, operation_id)
        except OSError as error:
            # Not knowing is neither ended nor absent: the next poll may know.
            return Progress(
                state=ProgressState.RUNNING, detail=one_line(f"cannot read the job: {error}")
            )

    def _fault(self, name: str) -> str:
        if not self._settings.enabled:
            return (
                "COMMAND workflows are off; an administrator turns them on with "
                "drivers.COMMAND.enabled = true"
            )
        if name not in self._settings.commands:
            known = ", ".join(sorted(self._settings.commands)) or "none"
            return f"no command is called {name!r} in drivers.COMMAND.commands; known: {known}"
        return ""


def _unfit(params: Mapping[str, object]) -> str:
    try:
        size = len(to_json(params))
    except (TypeError, ValueError) as error:
        return f"params have no JSON form: {one_line(str(error))}"
    return f"params are {size} bytes, more than {INPUT_MAX}" if size > INPUT_MAX else ""


def _secrets(command: Command) -> dict[str, str]:
    return {
        name: read_secret(path, f"env_files.{name}").decode("utf-8", "surrogateescape")
        for name, path in command.env_files.items()
    }


def _input(
    name: str,
    params: Mapping[str, object],
    target: Target,
    operation_id: OperationId,
    timeout_s: float,
) -> str:
    return to_json(
        {
            "operation_id": operation_id,
            "command": name,
            "timeout_s": timeout_s,
            "node": {
                "id": target.node_id,
                "name": target.name,
                "physical_id": target.physical_id,
                "cluster_id": target.cluster_id,
                "cluster_name": target.cluster_name,
                "profile_type": target.profile_type,
                "attributes": target.attributes,
            },
            "params": params,
        }
    ).decode()


if TYPE_CHECKING:
    _conforms: type[Workflow] = CommandWorkflow
