"""Nova's fake hypervisor with a memory, and with levers outside: guests die, operations fail.

In the host's `state_path`:

guests.json         the guests; Nova's own fake forgets them when nova-compute is restarted
crowd.json          guests that come (`here`) and go (`gone`) all at once, untold; then removed
ctl/<server>        `off`, `on`, `pause` or `gone`: done to the guest behind Nova's back, then removed
fail/<op>           while it is there, the operation raises
slow/<op>           while it is there, the operation waits first, for as many seconds as it says at most
fail|slow/<op>.<id> the same for one server, or for all servers of one project
"""

from __future__ import annotations

import functools
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nova import conf, exception  # type: ignore[import-not-found]
from nova.compute import power_state  # type: ignore[import-not-found]
from nova.image import glance  # type: ignore[import-not-found]
from nova.virt import event, fake, node  # type: ignore[import-not-found]

WATCH_S = 0.2
CROWD = 100
"""So many guests are a crowd, see `lab/openstack/crowd.py`; a host cannot be started with one."""
SLOWLY = "simulated_wait_time"
"""Seconds, in a server's metadata: Senlin's own tests of what is locked meanwhile count on it."""
SECOND_LOOK = "second_look"
"""Of Nova at a guest that is off: it has a name of its own among the levers."""
LEVERS: dict[str, tuple[int | None, int]] = {
    "off": (power_state.SHUTDOWN, event.EVENT_LIFECYCLE_STOPPED),
    "on": (power_state.RUNNING, event.EVENT_LIFECYCLE_STARTED),
    "pause": (power_state.PAUSED, event.EVENT_LIFECYCLE_PAUSED),
    "gone": (None, event.EVENT_LIFECYCLE_STOPPED),
}
# What an operation leaves the guest in, where the fake would leave it as it was.
LEFT_IN: dict[str, int] = {
    "pause": power_state.PAUSED,
    "unpause": power_state.RUNNING,
    "suspend": power_state.SUSPENDED,
    "resume": power_state.RUNNING,
    "rescue": power_state.RUNNING,
    "soft_delete": power_state.SHUTDOWN,
    "restore": power_state.RUNNING,
}
OPERATIONS = (
    "spawn", "destroy", "reboot", "power_off", "power_on", "rescue", "unrescue", "pause", "unpause",
    "suspend", "resume", "soft_delete", "restore", "snapshot", "set_admin_password",
    "get_console_output", "post_live_migration_at_source", "post_live_migration_at_destination",
    "migrate_disk_and_power_off", "finish_migration", "confirm_migration", "finish_revert_migration",
    "attach_interface", "detach_interface", "attach_volume", "detach_volume",
)  # fmt: skip


class Forced(exception.NovaException):  # type: ignore[misc]
    """An operation failed because a test wanted it to."""

    msg_fmt = "the lab lets %(operation)s fail"


class Hypervisor(fake.FakeDriver):  # type: ignore[misc]
    """The fake, corrected where it does what no real hypervisor driver does."""

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:
        """Be content when there is no such guest, as libvirt's: rebuilding it begins with this."""
        if instance.uuid in self.instances:
            super().power_off(instance, timeout, retry_interval)

    def power_on(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        """Make a guest that is gone again, as libvirt's."""
        if instance.uuid not in self.instances:
            self.spawn(context, instance, instance.image_meta, [], None, None)
        super().power_on(context, instance, *args, **kwargs)

    def snapshot(
        self, context: Any, instance: Any, image_id: str, update_task_state: Callable[..., None]
    ) -> None:
        """Upload an image, which the fake leaves queued for ever."""
        super().snapshot(context, instance, image_id, update_task_state)
        images = glance.API()
        name = images.get(context, image_id)["name"]
        image = {"name": name, "disk_format": "raw", "container_format": "bare"}
        images.update(context, image_id, image, data=io.BytesIO(instance.uuid.encode()))

    def post_live_migration_at_source(self, context: Any, instance: Any, network_info: Any) -> None:
        """Let go of the guest; the fake keeps it, and no evacuation may ever come back to here."""
        if self.instances.pop(instance.uuid, None) is not None:
            flavor = instance.flavor
            self.resources.release(flavor.vcpus, flavor.memory_mb, flavor.root_gb)

    def migrate_disk_and_power_off(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        """Switch the guest off; the fake lets it run on here while it is begun on another host."""
        self.power_off(instance)
        return str(super().migrate_disk_and_power_off(context, instance, *args, **kwargs) or "")

    def attach_interface(self, context: Any, instance: Any, image_meta: Any, vif: Any) -> None:
        """Take any interface; the fake refuses one that a guest of before has had."""
        self._interfaces[vif["id"]] = vif

    def detach_interface(self, context: Any, instance: Any, vif: Any) -> None:
        """Let go of any; the fake refuses those from before it was restarted."""
        self._interfaces.pop(vif["id"], None)

    def get_num_instances(self) -> int:
        """Not tell of a crowd: Nova would compare the power of each with its database for ever."""
        if len(self.instances) > CROWD:
            raise exception.VirtDriverNotReady
        return len(self.instances)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Nor have its room counted, which takes a minute and keeps deletions waiting meanwhile."""
        if len(self.instances) > CROWD:
            raise exception.VirtDriverNotReady
        nodes: list[str] = super().get_available_nodes(refresh)
        return nodes

    def get_host_uptime(self) -> str:
        """Say something; the fake raises, and each list of hypervisors notifies of an error."""
        return "00:00:00 up 1 day, 0:00, 0 users, load average: 0.00, 0.00, 0.00"

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        """Name the node that we are; the fake is a new one after each start, which Nova refuses."""
        resource: dict[str, Any] = super().get_available_resource(nodename)
        if resource:
            resource["uuid"] = node.get_local_node_uuid()
        return resource

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        """As get_available_resource."""
        return {node.get_local_node_uuid(): name for name in super().get_available_nodes()}


def breakable(name: str) -> Callable[..., object]:
    """Return an operation with the levers before it and the memory after it."""
    original: Callable[..., object] = getattr(Hypervisor, name)

    @functools.wraps(original)
    def operation(self: LabDriver, *args: Any, **kwargs: Any) -> object:
        server = next(word for word in (*args, *kwargs.values()) if hasattr(word, "flavor"))
        self.obey(name, server)
        answer = original(self, *args, **kwargs)
        if name in LEFT_IN:
            self.put(server.uuid, LEFT_IN[name])
        self.remember()
        return answer

    return operation


class LabDriver(Hypervisor):
    """One host's hypervisor, with room for a thousand guests and more, as the fake has."""

    def init_host(self, host: str) -> None:
        """Find the guests of before, and begin to look for levers."""
        super().init_host(host)
        self._folder = Path(conf.CONF.state_path)
        self._guests = self._folder / "guests.json"
        self._writing = threading.Lock()
        self._looking: set[str] = set()
        for levers in ("ctl", "fail", "slow"):
            (self._folder / levers).mkdir(parents=True, exist_ok=True)
        for uuid, (name, state) in self._remembered().items():
            self.instances[uuid] = fake.FakeInstance(name, state, uuid)
        self.remember()
        threading.Thread(target=self._watch, daemon=True).start()

    def _remembered(self) -> dict[str, tuple[str, int]]:
        try:
            guests: dict[str, tuple[str, int]] = json.loads(self._guests.read_text())
        except FileNotFoundError:
            return {}
        return guests

    def get_info(self, instance: Any, use_cache: bool = True) -> Any:
        """Look at a guest: twice before Nova stops its server, and the second look may take long.

        By then Nova has written the power state, and goes on calling the server ACTIVE.
        """
        found = super().get_info(instance, use_cache)
        if found.state == instance.power_state != power_state.RUNNING:
            if instance.uuid in self._looking:
                # Or it would be stopped twice, and perhaps after somebody has started it.
                raise Forced(operation=SECOND_LOOK)
            self._looking.add(instance.uuid)
            try:
                self.obey(SECOND_LOOK, instance)
            finally:
                self._looking.discard(instance.uuid)
        return found

    def remember(self) -> None:
        """Write down which guests there are."""
        with self._writing:
            guests = {uuid: (i.name, i.state) for uuid, i in list(self.instances.items())}
            draft = self._guests.with_suffix(".new")
            draft.write_text(json.dumps(guests))
            draft.replace(self._guests)

    def put(self, uuid: str, state: int) -> None:
        """Put a guest into a power state, if it is here: it may be deleted at any moment."""
        guest = self.instances.get(uuid)
        if guest is not None:
            guest.state = state

    def _watch(self) -> None:
        while True:
            time.sleep(WATCH_S)
            for lever in (self._folder / "ctl").iterdir():
                self._pull(lever)
            self._crowd(self._folder / "crowd.json")

    def _crowd(self, lever: Path) -> None:
        """Take and lose many guests at once; they are nobody's share of this host's room."""
        if not lever.exists():
            return
        change = json.loads(lever.read_text())
        for uuid, (name, state) in change.get("here", {}).items():
            self.instances[uuid] = fake.FakeInstance(name, state, uuid)
        for uuid in change.get("gone", ()):
            self.instances.pop(uuid, None)
        self.remember()
        lever.unlink()

    def _pull(self, lever: Path) -> None:
        try:
            word = lever.read_text().strip()
        except OSError:
            return
        # Half written, or for a guest that is not here yet: it stays for the next look.
        if word not in LEVERS or lever.name not in self.instances:
            return
        state, told = LEVERS[word]
        if state is None:
            self.instances.pop(lever.name, None)
        else:
            self.put(lever.name, state)
        self.remember()
        self.emit_event(event.LifecycleEvent(lever.name, told))
        # Only now: what Nova makes of it must not come after whatever is asked for next.
        lever.unlink(missing_ok=True)

    def obey(self, operation: str, server: Any) -> None:
        """Take long, then fail, as the levers say; and as its user wishes (`SLOWLY`)."""
        if operation == "spawn":
            time.sleep(float(server.metadata.get(SLOWLY, 0)))
        for lever in self._levers("slow", operation, server):
            self._wait(lever)
        if any(self._levers("fail", operation, server)):
            raise Forced(operation=operation)

    def _wait(self, lever: Path) -> None:
        """Take as long as a lever says, or until somebody takes it away."""
        began_s = time.monotonic()
        while (left_s := began_s + _seconds(lever) - time.monotonic()) > 0:
            time.sleep(min(WATCH_S, left_s))

    def _levers(self, kind: str, operation: str, server: Any) -> Iterator[Path]:
        for name in (operation, f"{operation}.{server.uuid}", f"{operation}.{server.project_id}"):
            lever = self._folder / kind / name
            if lever.exists():
                yield lever


def _seconds(lever: Path) -> float:
    try:
        return float(lever.read_text() or 0)
    except FileNotFoundError:
        return 0.0


for _name in OPERATIONS:
    setattr(LabDriver, _name, breakable(_name))
