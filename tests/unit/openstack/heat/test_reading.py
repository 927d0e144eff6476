"""Many stacks are read with few requests, and none is called down while it is being changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from yaffle.drivers.profiles.heat_stack.api.heat import Heat
from yaffle.drivers.profiles.heat_stack.status.member_cache import Roster
from yaffle.drivers.profiles.heat_stack.status.reading import Reader
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import NotFound
from yaffle.integrations.openstack import Answer, CloudUnavailable
from yaffle.integrations.openstack.servers.queries import Servers
from yaffle.integrations.openstack.servers.server_cache import ServerCache
from yaffle.model.ids import NodeId
from yaffle.model.operations import Reading, Target

CLOCK = SystemClock()


@dataclass
class Cloud:
    """A Heat and a Nova that hold what is put there, and note what they are asked."""

    stacks: dict[str, dict[str, object]] = field(default_factory=dict)
    members: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Of each stack: server id and Heat's status."""
    servers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refuses: str = ""
    """Requests whose path has this in it get no answer."""
    before: Callable[[str], None] = lambda _: None
    project_id: str = "p"
    left: float = 30.0

    def left_s(self) -> float:
        return self.left

    def patient(self, left_s: float) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, name: str, *servers: str, status: str = "CREATE_COMPLETE") -> None:
        self.stacks[name] = {"id": name, "stack_name": name, "stack_status": status}
        self.members[name] = [(server, "CREATE_COMPLETE") for server in servers]
        self.servers |= dict.fromkeys(servers, "ACTIVE")

    def get(
        self,
        service: str,
        path: str,
        *,
        version: str | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> Answer:
        self.before(path)
        self.asked.append(path)
        if self.refuses and self.refuses in path:
            raise CloudUnavailable(f"{path}: no answer", sent=False)
        body = json.dumps(self._answer(path, dict(query or {}))).encode()
        return Answer(status=200, body=body, request_id="")

    def _answer(self, path: str, query: dict[str, str | int]) -> object:
        if path == "/stacks":
            wanted = query.get("id")
            return {"stacks": [s for s in self.stacks.values() if wanted in (None, s["id"])]}
        if path.endswith("/resources"):
            return {
                "resources": [
                    {
                        "resource_name": server,
                        "resource_type": "OS::Nova::Server",
                        "resource_status": status,
                        "physical_resource_id": server,
                    }
                    for server, status in self.members[path.split("/")[2]]
                ]
            }
        if path == "/servers/detail":
            return {"servers": [self._server(ident) for ident in self.servers]}
        ident = path.rpartition("/")[2]
        if ident not in self.servers:
            raise NotFound(f"no server {ident}")
        return {"server": self._server(ident)}

    def _server(self, ident: str) -> dict[str, object]:
        word = self.servers[ident]
        power = 1 if word == "ACTIVE" else 4
        return {"id": ident, "status": word, "OS-EXT-STS:power_state": power, "updated": ""}


def target(name: str, **attributes: object) -> Target:
    return Target(
        node_id=NodeId(f"node-{name}"),
        name=name,
        physical_id=name,
        profile_type="os.heat.stack-1.0",
        spec={},
        attributes=attributes,
    )


@dataclass
class World:
    cloud: Cloud
    roster: Roster = field(default_factory=Roster)
    again_s: float = 3600.0

    def read(self, *names: str) -> list[Reading]:
        self.cloud.asked.clear()
        reader = Reader(
            Heat(self.cloud),  # type: ignore[arg-type]
            Servers(self.cloud),  # type: ignore[arg-type]
            ServerCache(CLOCK, full_s=0.0),
            self.roster,
            now_s=CLOCK.monotonic_s,
            again_s=self.again_s,
        )
        return reader.read([target(name) for name in names])


NAMES = tuple(f"s{n}" for n in range(40))


def world() -> World:
    cloud = Cloud()
    for name in NAMES:
        cloud.add(name, f"{name}-a", f"{name}-b")
    return World(cloud)


def test_stacks_that_have_not_changed_cost_two_requests() -> None:
    one = world()
    assert all(r.up is True for r in one.read(*NAMES))
    assert len(one.cloud.asked) == 2 + len(NAMES)
    assert all(r.up is True for r in one.read(*NAMES))
    assert one.cloud.asked == ["/stacks", "/servers/detail"]
    one.cloud.stacks["s7"] |= {"stack_status": "UPDATE_COMPLETE", "updated_time": "now"}
    one.read(*NAMES)
    assert one.cloud.asked == ["/stacks", "/stacks/s7/s7/resources", "/servers/detail"]


def test_a_change_in_a_stack_within_a_stack_is_seen() -> None:
    one = world()
    inner = {"id": "in", "stack_name": "in", "stack_status": "CREATE_COMPLETE", "parent": "s3"}
    one.cloud.stacks["in"] = inner
    one.read(*NAMES)
    inner["updated_time"] = "now"
    one.read(*NAMES)
    assert one.cloud.asked == ["/stacks", "/stacks/s3/s3/resources", "/servers/detail"]


def test_members_are_looked_at_again_now_and_then() -> None:
    one = world()
    one.read(*NAMES)
    one.cloud.members["s5"][0] = ("s5-a", "CHECK_FAILED")
    one.again_s = 0.0
    found = one.read(*NAMES)
    assert [r.up for r in found].count(False) == 1
    assert "s5-a (CHECK_FAILED)" in found[5].detail


def test_a_server_that_is_off_or_gone_is_found_though_heat_says_complete() -> None:
    one = world()
    one.read(*NAMES)
    one.cloud.servers["s1-a"] = "SHUTOFF"
    del one.cloud.servers["s2-b"]
    found = one.read(*NAMES)
    assert [n for n, r in zip(NAMES, found, strict=True) if r.up is False] == ["s1", "s2"]
    assert found[1].backend_status == "CREATE_COMPLETE with failed members"
    assert "SHUTOFF" in found[1].detail
    assert "Nova knows no such server" in found[2].detail


def test_a_member_that_heat_is_just_replacing_is_no_failure() -> None:
    one = world()
    one.read(*NAMES)
    del one.cloud.servers["s2-b"]

    def begun(path: str) -> None:
        # An update begins between the second look's first answer and its last.
        if path == "/stacks/s2/s2/resources":
            one.cloud.stacks["s2"] |= {"stack_status": "UPDATE_IN_PROGRESS", "updated_time": "now"}

    one.cloud.before = begun
    found = one.read(*NAMES)
    assert found[2].up is None
    assert "has just been changed" in found[2].detail


def test_the_members_of_an_older_list_condemn_nobody() -> None:
    one = world()
    one.read(*NAMES)
    del one.cloud.servers["s2-b"]
    # Replaced and over, all since Heat's list of stacks was read: only the second look sees it.
    one.cloud.members["s2"] = [("s2-a", "CREATE_COMPLETE"), ("s2-c", "CREATE_COMPLETE")]
    one.cloud.servers["s2-c"] = "ACTIVE"
    assert one.read(*NAMES)[2].up is True


def test_no_answer_is_unknown() -> None:
    for part, known in (("/stacks", 0), ("/servers", 0), ("/resources", 0)):
        one = world()
        one.cloud.refuses = part
        found = one.read(*NAMES)
        assert [r.up for r in found].count(None) == len(NAMES) - known, part
        assert all(r.exists for r in found)
        assert one.read("s1")[0].up is None, part


def test_nova_that_is_away_does_not_hide_what_heat_says() -> None:
    one = world()
    one.cloud.stacks["s4"]["stack_status"] = "CREATE_FAILED"
    one.cloud.refuses = "/servers"
    assert [r.up for r in one.read("s3", "s4")] == [None, False]


def test_what_is_in_no_list_is_asked_for_by_itself() -> None:
    one = world()
    found = one.read("s1", "lost")
    assert (found[1].exists, found[1].up) == (False, False)
    one.cloud.stacks["s2"]["stack_status"] = "DELETE_COMPLETE"
    assert one.read("s2")[0].exists is False


def test_without_time_nothing_is_said() -> None:
    one = world()
    one.cloud.left = 0.2
    assert {r.up for r in one.read("s1", "s2")} == {None}


def test_a_node_of_another_project_is_not_judged() -> None:
    one = world()
    stray = target("elsewhere", project_id="another")
    reader = Reader(
        Heat(one.cloud),  # type: ignore[arg-type]
        Servers(one.cloud),  # type: ignore[arg-type]
        ServerCache(CLOCK),
        one.roster,
        now_s=CLOCK.monotonic_s,
        again_s=60.0,
    )
    for targets in ([stray], [stray, target("s1")]):
        assert reader.read(targets)[0].up is None
