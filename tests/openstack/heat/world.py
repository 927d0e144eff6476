"""The profile under test as engines use it, in a project of its own in a real cloud with a real Heat."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.openstack.cloud import Cloud

from yaffle.drivers.profiles.heat_stack import HeatStack
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import Cloud as Calls
from yaffle.integrations.openstack import CloudsYaml
from yaffle.model.ids import ClusterId, NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target
from yaffle.ports import DriverContext

SERVER: Final[Mapping[str, object]] = {
    "type": "OS::Nova::Server",
    "properties": {
        "flavor": "lab.tiny",
        "image": "lab-image",
        "networks": [{"allocate_network": "none"}],
    },
}
WORD: Final[Mapping[str, object]] = {"type": "OS::Heat::RandomString"}
CLOCK: Final = SystemClock()
CALL_S: Final = 60.0
"""Generous, for the machine of a test may be slow; the engine's own calls are shorter."""
PATIENCE_S: Final = 240.0


def spec(**resources: Mapping[str, object]) -> Mapping[str, object]:
    """Return the properties of a stack with these resources."""
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    return {"template": template, "timeout": 5}


def group(count: int) -> Mapping[str, object]:
    """Return a resource that is a stack of so many servers."""
    properties = {"count": count, "resource_def": SERVER}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties}


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

    def profile(self) -> HeatStack:
        """Return a driver that knows nothing of earlier ones: a restarted engine, or another one."""
        settings = {"cloud": self.cloud.name, "clouds_file": str(self.cloud.clouds_yaml)}
        context = DriverContext(clock=CLOCK, state_dir=self.state_dir, settings=settings)
        return HeatStack(context, cloud=self.calls)

    def target(self, properties: Mapping[str, object]) -> Target:
        """Return a node that has never been built."""
        ident = str(uuid.uuid4())
        return Target(
            node_id=NodeId(ident),
            name=f"node-{ident[:8]}",
            physical_id="",
            cluster_id=ClusterId("c-1"),
            index=1,
            profile_type=HeatStack.type,
            spec=self.profile().validate(properties),
        )

    async def made(self, properties: Mapping[str, object]) -> Target:
        """Build a node."""
        target = self.target(properties)
        done = await self.do("CREATE", target)
        assert done.state is ProgressState.DONE, done.detail
        assert done.physical_id
        return replace(target, physical_id=done.physical_id, attributes=done.attributes or {})

    async def do(
        self,
        kind: str,
        target: Target,
        *,
        operation_id: OperationId | None = None,
        **params: object,
    ) -> Progress:
        """Carry an operation to its end, each request of it by another engine."""
        ident = operation_id or new_id()
        op = Operation(kind=kind, target=target, params=params, timeout_s=PATIENCE_S)
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        done = await self.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
        while done.state in (ProgressState.RUNNING, ProgressState.ABSENT):
            assert CLOCK.monotonic_s() < until_s, f"{kind}: no end: {done.detail}"
            await CLOCK.sleep(0.4)
            driver = self.profile()
            again = driver.poll if done.state is ProgressState.RUNNING else driver.submit
            done = await again(op, operation_id=ident, deadline_s=CALL_S)
        return done

    async def read(self, target: Target, *others: Target) -> Reading:
        """Read a node with a driver of its own, in a batch where others are given."""
        return (await self.profile().read([target, *others], deadline_s=CALL_S))[0]

    async def until(self, target: Target, up: bool | None) -> Reading:
        """Wait until a node is read so."""
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while (seen := await self.read(target)).up is not up:
            assert CLOCK.monotonic_s() < until_s, f"not {up}: {seen}"
            await CLOCK.sleep(0.4)
        return seen

    def stacks(self, path: str = "", method: str = "GET", body: Any = None) -> dict[str, Any]:
        """Call Heat as the project's user."""
        base = f"/v1/{self.cloud.credentials.project_id}/stacks"
        return self.cloud.api.call(method, "orchestration", f"{base}{path}", body)

    def members(self, target: Target) -> dict[str, tuple[str, str]]:
        """Return physical id and status of each member, by its name and that of its group."""
        path = f"/{target.attributes['stack_name']}/{target.physical_id}/resources?nested_depth=5"
        return {
            f"{r.get('parent_resource', '')}/{r['resource_name']}": (
                r["physical_resource_id"],
                r["resource_status"],
            )
            for r in self.stacks(path)["resources"]
        }
