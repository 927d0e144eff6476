"""What one lab consists of and where its parts are; kept, so that every later command agrees."""

from __future__ import annotations

import json
import os
import random
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lab.openstack.errors import LabError

# Below the range from which Linux gives ports to outgoing connections: a service that is stopped for
# a while must find its port free when it is started again. Below those, too, that Yaffle gives to the
# local processes it makes, for the same reason.
BASES: Final = range(10_000, 20_000, 20)
PORTS_USED: Final = 14
# The kernel's limit for the name of a Unix socket is 107 bytes; PostgreSQL's takes the rest.
STATE_LENGTH_MAX: Final = 70
EXTRAS: Final = ("neutron", "cinder", "octavia", "mistral")
"""What only labs have that are asked for it, in the order in which it starts."""
HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
HOME: Final = ROOT / ".venv" / "openstack-lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Every port is a fixed distance from `base`, so that one number describes them all."""

    base: int

    @property
    def bus(self) -> int:
        """RabbitMQ."""
        return self.base + 1

    @property
    def epmd(self) -> int:
        """Erlang's name server."""
        return self.base + 2

    @property
    def erlang(self) -> int:
        """RabbitMQ's own, for its tools."""
        return self.base + 3

    @property
    def identity(self) -> int:
        """Keystone."""
        return self.base + 4

    @property
    def placement(self) -> int:
        """Placement."""
        return self.base + 5

    @property
    def image(self) -> int:
        """Glance."""
        return self.base + 6

    @property
    def network(self) -> int:
        """Neutron's API, or our stand-in for it."""
        return self.base + 7

    @property
    def compute(self) -> int:
        """Nova's API."""
        return self.base + 8

    @property
    def orchestration(self) -> int:
        """Heat's API."""
        return self.base + 9

    @property
    def balancing(self) -> int:
        """Octavia's API."""
        return self.base + 10

    @property
    def clustering(self) -> int:
        """Kept free for a clustering service under test or beside ours."""
        return self.base + 11

    @property
    def workflow(self) -> int:
        """Mistral's API."""
        return self.base + 12

    @property
    def volume(self) -> int:
        """Cinder's API."""
        return self.base + 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One lab. All its files are below `state`; `packages` is the cloud's Python environment."""

    state: Path
    base: int
    computes: int = 2
    heat: bool = False
    extras: tuple[str, ...] = ()
    """What it has besides, of `EXTRAS`."""
    packages: Path = HOME / "packages"
    cache: Path | None = HOME / "cache"
    """Where the empty cloud is kept between labs; None: not kept."""

    @property
    def ports(self) -> Ports:
        """All ports."""
        return Ports(base=self.base)

    @property
    def etc(self) -> Path:
        """Configuration."""
        return self.state / "etc"

    @property
    def log(self) -> Path:
        """One file for each process, and what its program logs itself."""
        return self.state / "log"

    @property
    def run(self) -> Path:
        """Which processes were started."""
        return self.state / "run"

    @property
    def data(self) -> Path:
        """What the services keep."""
        return self.state / "data"

    @property
    def done(self) -> Path:
        """Marks of the steps that need not be done again."""
        return self.state / "done"

    @property
    def clouds_yaml(self) -> Path:
        """The administrator's clouds.yaml; its cloud is called `lab`."""
        return self.state / "clouds.yaml"

    @property
    def python(self) -> Path:
        """The interpreter that the cloud runs on."""
        return self.packages / "bin" / "python"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The compute hosts' names."""
        return tuple(f"cmp{n}" for n in range(1, self.computes + 1))

    @property
    def bus_url(self) -> str:
        """RabbitMQ, as oslo.messaging writes it."""
        return f"rabbit://lab:lab@127.0.0.1:{self.ports.bus}/"

    @property
    def auth_url(self) -> str:
        """Keystone."""
        return f"{self.url('identity')}/v3"

    def url(self, service: str) -> str:
        """Return where a service answers, by its catalog type: identity, compute, image, …"""
        return f"http://127.0.0.1:{getattr(self.ports, service)}"

    def host_data(self, host: str) -> Path:
        """Return the folder through which a compute host is broken and looked into."""
        if host not in self.hosts:
            raise LabError(f"there is no host {host} in this lab; there is {', '.join(self.hosts)}")
        return self.data / host

    def save(self) -> None:
        """Keep it in its state folder, which is made if need be and is nobody else's to read."""
        self.state.mkdir(parents=True, exist_ok=True)
        if self.state.stat().st_uid != os.geteuid():
            raise LabError(f"{self.state} belongs to somebody else; name another with --state")
        # PostgreSQL, when we are root, is another account and has to pass through.
        self.state.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for folder in (self.etc, self.log, self.run, self.done):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
        self.data.mkdir(exist_ok=True)
        words = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        (self.state / "plan.json").write_text(json.dumps(words, indent=1))


def load(state: Path) -> Plan:
    """Read the plan of a lab that was brought up there before."""
    try:
        words = json.loads((state / "plan.json").read_text())
    except FileNotFoundError:
        raise LabError(f"no lab was ever brought up in {state}") from None
    return Plan(
        state=state,
        base=words["base"],
        computes=words["computes"],
        heat=words["heat"],
        extras=tuple(words.get("extras", ())),
        packages=Path(words["packages"]),
        cache=Path(words["cache"]) if words["cache"] else None,
    )


def exists(state: Path) -> bool:
    """Say whether a lab was brought up there."""
    return (state / "plan.json").exists()


def check_length(state: Path) -> None:
    """Refuse a folder whose name is too long for a socket in it."""
    if len(os.fsencode(state)) > STATE_LENGTH_MAX:
        raise LabError(f"{state} is too long a name for a lab: at most {STATE_LENGTH_MAX} bytes")


def free_base() -> int:
    """Return a base whose ports are all free now."""
    bases = list(BASES)
    random.shuffle(bases)
    for base in bases:
        if all(_free(base + n) for n in range(PORTS_USED)):
            return base
    raise LabError(f"no {PORTS_USED} free ports in a row between {BASES.start} and {BASES.stop}")


def _free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
