"""A project of a test's own in the lab's cloud, with the few steps that most tests begin with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.openstack import Credentials, Guest, Lab, LabError
from lab.openstack.api import Api
from lab.openstack.catalog import grant
from lab.openstack.waiting import until

if TYPE_CHECKING:
    from openstack.connection import Connection

BUILD_S: Final = 180.0
"""A server is ACTIVE after two seconds, on a machine that has nothing else to do; it has much else."""
NOSTATE, RUNNING, PAUSED, SHUTDOWN = 0, 1, 3, 4
"""Nova's power states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What Nova says of a server."""

    id: str
    status: str
    power: int
    host: str
    task: str | None
    metadata: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Cloud:
    """`credentials` for what is tested; `api` calls the services as the same user."""

    lab: Lab
    credentials: Credentials
    api: Api = field(init=False)
    _operator: Api | None = None

    def __post_init__(self) -> None:
        mine = self.credentials
        self.api = Api(self.lab.plan, mine.user, mine.password, mine.project)

    @property
    def name(self) -> str:
        """The cloud's name in `clouds_yaml`."""
        return self.credentials.cloud

    @property
    def clouds_yaml(self) -> Path:
        """The file that describes this cloud, for this project's user."""
        return self.credentials.clouds_yaml

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Give a connection of openstacksdk's, which takes a second to import."""
        with warnings.catch_warnings():
            # It deprecates what it uses itself.
            warnings.simplefilter("ignore")
            from openstack.config import OpenStackConfig
            from openstack.connection import Connection

            config = OpenStackConfig(config_files=[str(self.clouds_yaml)], load_envvars=False)
            with Connection(config=config.get_one(self.name)) as connection:
                yield connection
                connection.session.session.close()

    @property
    def operator(self) -> Api:
        """An administrator who works in this project."""
        if self._operator is None:
            admin = self.lab.api.get("identity", "/users?name=admin")["users"][0]["id"]
            grant(self.lab.api, project=self.credentials.project_id, user=admin, role="admin")
            self._operator = Api(self.lab.plan, project=self.credentials.project)
        return self._operator

    def flavor(self, name: str = "lab.tiny") -> str:
        """Return a flavor's id."""
        flavors = self.api.get("compute", "/flavors")["flavors"]
        return str(next(f["id"] for f in flavors if f["name"] == name))

    def image(self, name: str = "lab-image") -> str:
        """Return an image's id."""
        return str(self.api.get("image", f"/images?name={name}")["images"][0]["id"])

    def server(self, name: str = "one", *, host: str = "", active: bool = True, **more: Any) -> str:
        """Start a server, on a host if it is named, and wait until it is ACTIVE; return its id.

        `more` goes into Nova's request as it is: `metadata={…}`.
        """
        wanted = {"name": name, "flavorRef": self.flavor(), "imageRef": self.image()}
        words = {**wanted, "networks": "none", **more, **({"host": host} if host else {})}
        api = self.operator if host else self.api
        server = str(api.call("POST", "compute", "/servers", {"server": words})["server"]["id"])
        if active:
            self._until_built(server)
        return server

    def _until_built(self, server: str) -> None:
        """Wait no longer than until it has failed, and say why."""
        built = lambda: self.show(server).status in {"ACTIVE", "ERROR"}  # noqa: E731
        until(f"server {server} is built", built, BUILD_S, poll_s=0.2)
        found = self.lab.api.get("compute", f"/servers/{server}")["server"]
        if found["status"] == "ERROR":
            fault = found.get("fault", {}).get("message", "and Nova does not say why")
            raise LabError(f"server {server} cannot be built: {fault}")

    def show(self, server: str) -> Server:
        """Return what Nova says of a server, to an administrator."""
        found = self.lab.api.get("compute", f"/servers/{server}")["server"]
        return Server(
            id=found["id"],
            status=found["status"],
            power=found["OS-EXT-STS:power_state"],
            host=found["OS-EXT-SRV-ATTR:host"] or "",
            task=found["OS-EXT-STS:task_state"],
            metadata=found["metadata"],
        )

    def until(
        self, server: str, status: str, power: int | None = None, within_s: float = BUILD_S
    ) -> Server:
        """Wait until Nova says `status`, and the power state if one is named, and does no more to it.

        Of what a host could not do Nova says ERROR first; only then does it let others act.
        """
        seen = self.show(server)

        def true() -> bool:
            nonlocal seen
            seen = self.show(server)
            return seen.status == status and seen.task is None and power in {None, seen.power}

        try:
            until(f"server {server} is {status}, power {power}", true, within_s, poll_s=0.2)
        except Exception as error:
            error.add_note(f"at last: {seen}")
            raise
        return seen

    def act(self, server: str, action: str, **words: Any) -> None:
        """Ask Nova for an action: `act(server, "reboot", type="HARD")`."""
        body = {action: words or None}
        self.api.call("POST", "compute", f"/servers/{server}/action", body)

    def guest(self, server: str) -> Guest:
        """Return what the server is on its hypervisor."""
        return self.lab.guest(server)

    def remove(self) -> None:
        """Remove the project with all servers in it."""
        self.lab.remove_project(self.credentials)
        self.api.close()
        if self._operator is not None:
            self._operator.close()
