"""A rack of scripted devices, a cloud that says how its hosts are, and nodes on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.given import Given
from tests.private import private
from tests.waiting import wait_for

from yaffle.drivers.fencers.host import HostFencer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import FenceResult, HostReading, Target
from yaffle.ports import DriverContext, HostMonitor

AGENT = Path(__file__).with_name("scripted_agent.py")
KIND, PLAIN = "made.up.cloud-1.0", "made.up.alone-1.0"
SECRET = "s3cret-Pa55word"


class Cloud:
    """What a profile with hosts says of them; `down` by default, as after a dead compute service."""

    def __init__(self) -> None:
        self.told: dict[str, HostReading | Exception] = {}
        self.asked = 0

    async def hosts(self, targets: Sequence[Target], *, deadline_s: float) -> list[HostReading]:
        self.asked += len(targets)
        found = []
        for target in targets:
            # By the physical id: where the node is now, whatever was noted of it.
            host = target.physical_id.partition("@")[2]
            told = self.told.get(
                host, HostReading(name=host, up=False, detail="no heartbeat", reported="12:00")
            )
            if isinstance(told, Exception):
                raise told
            found.append(told)
        return found


@dataclass
class Rack:
    """One device of the scripted agent with hosts cmp1 and cmp2."""

    folder: Path
    cloud: Cloud = field(default_factory=Cloud)
    settings: dict[str, object] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    devices: bool = True
    monitors: dict[str, HostMonitor] = field(default_factory=dict)
    clouds: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A copy of its own: what runs of it is this test's, whoever else tests at the same time.
        self.agent = self.folder / "fence_scripted"
        self.agent.write_bytes(AGENT.read_bytes())
        self.agent.chmod(0o755)
        (self.folder / "power").write_text("on")
        self.plan()
        private(self.folder / "password", SECRET + "\n")

    def plan(self, **actions: Mapping[str, object]) -> None:
        (self.folder / "plan.json").write_text(json.dumps(actions))

    @property
    def power(self) -> str:
        return (self.folder / "power").read_text()

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return (
            [" ".join(line.split()[:2]) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    @property
    def seen(self) -> dict[str, object]:
        return json.loads((self.folder / "seen.json").read_text())

    def device(self) -> dict[str, object]:
        return {
            "agent": str(self.agent),
            "hosts": {"cmp1": "7", "cmp2": "8"},
            "options": {"device": str(self.folder), "username": "admin", **self.options},
            "password_file": str(self.folder / "password"),
            **self.settings,
        }

    def fencer(self, clock: SystemClock | None = None) -> HostFencer:
        context = DriverContext(
            clock=clock or SystemClock(),
            state_dir=self.folder,
            settings={"devices": {"rack1": self.device()} if self.devices else {}},
            host_monitors=self.monitors,
            host_clouds=self.clouds,
            host_names=self.names,
            profiles={KIND: self.cloud, PLAIN: object()},  # type: ignore[dict-item]
        )
        return HostFencer(context)

    def fence(
        self, target: Target, *, deadline_s: float = 60.0, fencer: HostFencer | None = None
    ) -> FenceResult:
        return asyncio.run(
            (fencer or self.fencer()).fence(
                target, operation_id=OperationId("fence-1"), deadline_s=deadline_s
            )
        )

    def fence_on(
        self,
        target: Target,
        *,
        deadline_s: float,
        enough: Callable[[FenceResult], object],
        fencer: HostFencer | None = None,
    ) -> FenceResult:
        """Fence what is on; the agent is given more time until it has come as far as `enough`.

        For what takes its whole deadline: on a busy machine a program may not even have begun by then.
        """
        for factor in (1, 4, 16):
            (self.folder / "power").write_text("on")
            (self.folder / "calls").unlink(missing_ok=True)
            with Given() as time_given:
                result = self.fence(target, deadline_s=factor * deadline_s, fencer=fencer)
                assert time_given.s < factor * deadline_s + 1
            if enough(result):
                break
        return result

    def switch_off_once_told(self) -> None:
        """Let the power go off a moment after the agent was told to see to it, whatever it does."""

        def wait() -> None:
            until(lambda: "off 7" in self.calls)
            (self.folder / "power").write_text("off")

        threading.Thread(target=wait, daemon=True).start()


def node(
    host: str = "cmp1", name: str = "web-1", *, kind: str = KIND, noted: object = None
) -> Target:
    """A node that the cloud knows on `host`; `noted` is what was once stored of it."""
    return Target(
        node_id=NodeId(name),
        name=name,
        physical_id=f"{name}@{host}",
        profile_type=kind,
        spec={},
        attributes={} if noted is None else {"host": noted},
    )


def running(pattern: str) -> list[int]:
    """Return the processes whose command line holds `pattern`; zombies have none."""
    return [pid for pid, words in command_lines().items() if pattern in words]


def command_lines() -> dict[int, str]:
    """Return every command line on this machine but our own."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = words.decode(errors="replace")
    return found


def until(condition: Callable[[], object], within_s: float = 60.0) -> None:
    """Wait for something that happens in another process."""
    wait_for(condition, within_s=within_s, every_s=0.02)
