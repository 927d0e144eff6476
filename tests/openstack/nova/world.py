"""The profile under test as engines use it, in a project of its own in a real cloud."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.openstack.cloud import Cloud

from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import Cloud as Calls
from yaffle.integrations.openstack import CloudsYaml
from yaffle.model.ids import ClusterId, NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target
from yaffle.ports import DriverContext

SPEC: Final[Mapping[str, object]] = {
    "flavor": "lab.tiny",
    "image": "lab-image",
    "networks": "none",
}
CLOCK: Final = SystemClock()
CALL_S: Final = 60.0
"""Generous, for the machine of a test may be slow; the engine's own calls are shorter."""
PATIENCE_S: Final = 240.0


def new_id() -> OperationId:
    """Return an operation id that no cloud has seen."""
    return OperationId(str(uuid.uuid4()))


@dataclass(slots=True, kw_only=True)
class World:
    """One project, one set of credentials, and as many engines as a test needs."""

    cloud: Cloud
    state_dir: Path
    calls: Calls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = Calls(CloudsYaml(name=self.cloud.name, file=self.cloud.clouds_yaml), CLOCK)

    @property
    def settings(self) -> dict[str, object]:
        """The section that an operator would write."""
        return {"cloud": self.cloud.name, "clouds_file": str(self.cloud.clouds_yaml)}

    def profile(self) -> NovaServer:
        """Return a driver that knows nothing of earlier ones: a restarted engine, or another one."""
        context = DriverContext(clock=CLOCK, state_dir=self.state_dir, settings=self.settings)
        return NovaServer(context, cloud=self.calls)

    def target(self, **spec: object) -> Target:
        """Return a node that has never been built."""
        ident = str(uuid.uuid4())
        return Target(
            node_id=NodeId(ident),
            name=f"node-{ident[:8]}",
            physical_id="",
            cluster_id=ClusterId("c-1"),
            index=1,
            profile_type=NovaServer.type,
            spec=self.profile().validate({**SPEC, **spec}),
        )

    async def made(self, **spec: object) -> Target:
        """Build a node."""
        target = self.target(**spec)
        done = await self.do("CREATE", target)
        assert done.state is ProgressState.DONE, done.detail
        assert done.physical_id
        return replace(target, physical_id=done.physical_id, attributes=done.attributes or {})

    async def do(
        self,
        kind: str,
        target: Target,
        *,
        profile: NovaServer | None = None,
        operation_id: OperationId | None = None,
        **params: object,
    ) -> Progress:
        """Carry an operation to its end, as the engine does: what left no trace is sent again."""
        driver, ident = profile or self.profile(), operation_id or new_id()
        op = Operation(kind=kind, target=target, params=params, timeout_s=PATIENCE_S)
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        done = await driver.submit(op, operation_id=ident, deadline_s=CALL_S)
        while done.state in (ProgressState.RUNNING, ProgressState.ABSENT):
            assert CLOCK.monotonic_s() < until_s, f"{kind}: no end: {done.detail}"
            await CLOCK.sleep(0.3)
            again = driver.poll if done.state is ProgressState.RUNNING else driver.submit
            done = await again(op, operation_id=ident, deadline_s=CALL_S)
        return done

    async def poll(self, kind: str, target: Target, ident: OperationId) -> Progress:
        """Ask a driver that has not seen the submit."""
        op = Operation(kind=kind, target=target)
        return await self.profile().poll(op, operation_id=ident, deadline_s=CALL_S)

    async def read(self, target: Target) -> Reading:
        """Read one node with a driver of its own."""
        return (await self.profile().read([target], deadline_s=CALL_S))[0]

    async def until(self, target: Target, word: str) -> Reading:
        """Wait until a node is read so."""
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while (seen := await self.read(target)).backend_status != word:
            assert CLOCK.monotonic_s() < until_s, f"not {word}: {seen}"
            await CLOCK.sleep(0.3)
        return seen

    def acts(self, target: Target) -> list[str]:
        """Return what was done to the server, newest first."""
        path = f"/servers/{target.physical_id}/os-instance-actions"
        found = self.cloud.lab.api.get("compute", path)["instanceActions"]
        return [str(act["action"]) for act in found]

    def mark(self, target: Target, metadata: Mapping[str, str]) -> None:
        """Write metadata on the server, as an engine that is dead now has."""
        path = f"/servers/{target.physical_id}/metadata"
        self.cloud.lab.api.call("POST", "compute", path, {"metadata": dict(metadata)})
