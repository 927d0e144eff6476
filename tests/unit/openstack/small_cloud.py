"""A small Nova and Neutron behind one client: one server, which can be resized and connected.

It does what its big sister was seen to do: an act is recorded, then carried out in its own time
(`tick`), metadata is refused where Nova refuses it, and a second confirmation is. What can go wrong
with it is said beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from yaffle.integrations.openstack.client import Answer
from yaffle.integrations.openstack.faults import CloudUnavailable, fault_of

US, ALICE = "yaffle", "alice"
SERVER = "5e5e5e5e-0000-4000-8000-000000000000"
SIZES: Mapping[str, Mapping[str, Any]] = {
    "f-tiny": {"id": "f-tiny", "name": "tiny", "vcpus": 1, "ram": 64, "disk": 1},
    "f-small": {"id": "f-small", "name": "small", "vcpus": 2, "ram": 256, "disk": 1},
    "f-huge": {"id": "f-huge", "name": "huge", "vcpus": 2, "ram": 10**9, "disk": 1},
}
NETWORKS = {"n-a": "a", "n-b": "b"}
MARKABLE = {"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF"}


@dataclass
class SmallCloud:
    """What a driver's client would reach."""

    status: str = "ACTIVE"
    task: str | None = None
    size: str = "f-tiny"
    name: str = "web"
    image: str = "i-1"
    metadata: dict[str, str] = field(default_factory=dict)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it is connected by: port to network and address."""
    acts: list[dict[str, Any]] = field(default_factory=list)
    """The newest first."""
    asked: list[str] = field(default_factory=list)
    loses: set[str] = field(default_factory=set)
    """Requests that are carried out, and whose answer is lost."""
    breaks: set[str] = field(default_factory=set)
    """Acts that a host fails to carry out."""
    errs: set[str] = field(default_factory=set)
    """Acts that a host fails to carry out, and that leave the server in ERROR."""
    fault: dict[str, Any] | None = None
    """What went wrong with it last; shown while it is in ERROR."""
    forbids: set[str] = field(default_factory=set)
    hides_acts: bool = False
    user_id: str = US
    project_id: str = "p"
    stamp: int = 0
    left: Callable[[], None] | None = None
    """What a host still has to do."""
    old_size: str = ""
    power: str = ""
    """The status that it had before it was resized."""

    def left_s(self) -> float:
        return 10.0

    # --- what Nova answers ---------------------------------------------------------------------

    def get(self, service: str, path: str, **more: Any) -> Answer:
        if service == "network":
            query = more["query"]
            found = [
                {"id": i, "name": n}
                for i, n in NETWORKS.items()
                if query in ({"id": i}, {"name": n})
            ]
            return self._answer({"networks": found})
        if path == f"/servers/{SERVER}":
            return self._answer({"server": self._shown()})
        if found := re.fullmatch(r"/flavors/(.+)", path):
            return self._found({"flavor": SIZES.get(found[1])}, SIZES.get(found[1]))
        if path == "/flavors":
            return self._answer({"flavors": list(SIZES.values())})
        if path.endswith("/os-interface"):
            return self._answer({"interfaceAttachments": list(self.ports.values())})
        if self.hides_acts:
            raise fault_of(403, b"{}", path, acts=False)
        if path.endswith("/os-instance-actions"):
            bare = [{k: v for k, v in act.items() if k != "events"} for act in self.acts]
            return self._answer({"instanceActions": bare})
        act = next((a for a in self.acts if path.endswith(f"/{a['request_id']}")), None)
        return self._found({"instanceAction": act}, act)

    def act(self, method: str, service: str, path: str, **more: Any) -> Answer:
        body = more.get("body") or {}
        what, where = next(iter(body), ""), path.rpartition("/")[2]
        if where == "metadata":
            self._only(MARKABLE, "update metadata")
            given = dict(body["metadata"])
            self.metadata = given if method == "PUT" else {**self.metadata, **given}
            self._moved()
            return self._answered("rename" if method == "PUT" else "mark", "")
        if method == "PUT":
            self.name = body["server"]["name"]
            return self._answered("name", "")
        if "/os-interface" in path:
            return self._connected(method, where, body)
        doing = {
            "resize": lambda: self._resize(body),
            "confirmResize": lambda: self._verified("confirmResize", self._confirmed),
            "revertResize": lambda: self._verified("revertResize", self._reverted),
            "rebuild": lambda: self._rebuild(body),
            "os-start": self._started,
        }[what]
        if what in self.forbids:
            raise fault_of(403, b"{}", what, acts=True)
        doing()
        return self._answered(what, self.acts[0]["request_id"])

    def tick(self) -> None:
        """Let the host do what it has to do next."""
        doing, self.left = self.left, None
        if doing is not None:
            doing()
            self._moved()

    def by(self, user: str, action: str, **words: Any) -> None:
        """Let somebody else ask for something."""
        self.user_id, us = user, self.user_id
        self.act("POST", "compute", f"/servers/{SERVER}/action", body={action: words})
        self.asked.pop()
        self.user_id = us

    # --- resizing ------------------------------------------------------------------------------

    def _resize(self, body: Mapping[str, Any]) -> None:
        self._only({"ACTIVE", "SHUTOFF"}, "resize")
        wanted, was = body["resize"]["flavorRef"], self.status
        if wanted == self.size:
            raise fault_of(
                400, b'{"b": {"message": "instances must change flavor"}}', "", acts=True
            )
        self.power = was
        self._record("resize", "cold_migrate")
        self.status, self.task, self.old_size = "RESIZE", "resize_prep", self.size

        def resized() -> None:
            self.task = None
            if wanted == "f-huge":
                self._ended(wrong="No valid host was found")
                self.status = was
            elif "resize" in self.breaks:
                # What went wrong is written after that it did.
                self.status, self.left = "ERROR", lambda: self._ended(wrong="no room")
            else:
                self._ended()
                self.status, self.size = "VERIFY_RESIZE", wanted

        self.left = resized

    def _verified(self, act: str, then: Callable[[], None]) -> None:
        if self.status != "VERIFY_RESIZE":
            raise self._conflict(act)
        # Nova looks for a move that is finished; one that is confirmed is so no more.
        if self.left is not None:
            raise fault_of(
                400, b'{"b": {"message": "Instance has not been resized."}}', act, acts=True
            )
        self._record(act, f"compute_{act}")
        self.left = then

    def _confirmed(self) -> None:
        if "confirmResize" in self.breaks:
            self._ended(wrong="disk is busy")
            return
        if "confirmResize" in self.errs:
            # Nova shows no task, and what went wrong the last time, until it has written down why.
            self.status, self.left = "ERROR", lambda: self._failed("disk is busy")
            return
        self._ended()
        self.status = self.power

    def _failed(self, why: str) -> None:
        self.fault = {"message": why, "code": 500, "created": f"{self._now()}Z"}
        self._ended(wrong=why)

    def _reverted(self) -> None:
        self._ended()
        self.status, self.size = self.power, self.old_size

    # --- the rest ------------------------------------------------------------------------------

    def _rebuild(self, body: Mapping[str, Any]) -> None:
        self._only({"ACTIVE", "SHUTOFF", "ERROR"}, "rebuild")
        given, was = body["rebuild"], self.status
        self.image, self.metadata = given["imageRef"], dict(given["metadata"])
        self.name = given.get("name", self.name)
        self._record("rebuild", "compute_rebuild")
        self.status, self.task = "REBUILD", "rebuilding"

        def rebuilt() -> None:
            self._ended()
            self.status, self.task = was, None

        self.left = rebuilt

    def _started(self) -> None:
        self._only({"SHUTOFF"}, "start")
        self._record("start", "compute_start")
        self._ended()
        self.status = "ACTIVE"

    def _connected(self, method: str, port: str, body: Mapping[str, Any]) -> Answer:
        act = "detach_interface" if method == "DELETE" else "attach_interface"
        self._only({"ACTIVE", "PAUSED", "SHUTOFF"}, act)
        if method == "DELETE" and port not in self.ports:
            raise fault_of(404, b'{"itemNotFound": {"message": "no port"}}', act, acts=True)
        self._record(act, f"compute_{act}")
        if act in self.breaks:
            self._ended(wrong="the guest does not let go")
        elif method == "DELETE":
            self.left = lambda: (self._ended(), self.ports.pop(port), None)[-1]
        else:
            self.left = lambda: self._plugged(body["interfaceAttachment"])
            if act not in self.loses:
                # Nova answers once it is done; who hears nothing may have asked too early.
                self.tick()
        return self._answered(f"{act} {port if method == 'DELETE' else ''}".strip(), "r-i")

    def _plugged(self, given: Mapping[str, Any]) -> None:
        self.plug(given.get("net_id", ""), port=given.get("port_id", ""), **_fixed(given))
        self._ended()

    def plug(self, network: str, *, port: str = "", address: str = "") -> str:
        """Connect it behind everybody's back; return the port."""
        port = port or f"p-{self.stamp}-{len(self.ports)}"
        address = address or f"10.0.0.{len(self.ports) + 1}"
        fixed = [{"ip_address": address}]
        self.ports[port] = {"port_id": port, "net_id": network, "fixed_ips": fixed}
        return port

    def _record(self, action: str, event: str) -> None:
        act = {
            "action": action, "request_id": f"r-{len(self.acts)}", "user_id": self.user_id,
            "message": None, "events": [{"event": event, "result": None}],
            "start_time": f"{self._now()}.000000",
        }  # fmt: skip
        self.acts.insert(0, act)
        self._moved()

    def _ended(self, *, wrong: str = "") -> None:
        (event,) = self.acts[0]["events"]
        event |= {"result": "Error" if wrong else "Success", "details": wrong or None}
        self.acts[0]["message"] = "Error" if wrong else None
        self._moved()

    def _moved(self) -> None:
        self.stamp += 1

    def _now(self) -> str:
        return f"2026-01-01T00:{self.stamp // 60:02}:{self.stamp % 60:02}"

    def _only(self, statuses: set[str], what: str) -> None:
        if self.status not in statuses or self.task is not None:
            raise self._conflict(what)

    def _conflict(self, what: str) -> Exception:
        state = f"task_state {self.task}" if self.task else f"vm_state {self.status}"
        told = {"conflictingRequest": {"message": f"Cannot '{what}' while it is in {state}"}}
        return fault_of(409, msgspec.json.encode(told), what, acts=True)

    def _answered(self, what: str, request: str) -> Answer:
        self.asked.append(what)
        if what in self.loses:
            self.loses.discard(what)
            raise CloudUnavailable(f"{what}: no answer", sent=True)
        return Answer(status=202, body=b"{}", request_id=request)

    def _answer(self, document: Any) -> Answer:
        return Answer(status=200, body=msgspec.json.encode(document), request_id="")

    def _found(self, document: Any, thing: object) -> Answer:
        if thing is None:
            raise fault_of(404, b'{"itemNotFound": {"message": "none"}}', "", acts=False)
        return self._answer(document)

    def _shown(self) -> dict[str, Any]:
        has = SIZES[self.size]
        return {
            "id": SERVER, "status": self.status, "name": self.name, "updated": f"T{self.stamp}",
            "OS-EXT-STS:task_state": self.task, "OS-EXT-STS:power_state": 1,
            "metadata": self.metadata, "image": {"id": self.image} if self.image else "",
            **({"fault": self.fault} if self.fault and self.status == "ERROR" else {}),
            "flavor": {"original_name": has["name"], **{k: has[k] for k in ("vcpus", "ram", "disk")}},
        }  # fmt: skip


def _fixed(given: Mapping[str, Any]) -> dict[str, str]:
    fixed = given.get("fixed_ips")
    return {"address": fixed[0]["ip_address"]} if fixed else {}
