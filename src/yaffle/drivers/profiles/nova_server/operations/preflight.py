"""Whether a server could be made, or made anew, before the one that is there is given up for it.

Only what Nova itself would refuse a request for is called missing, by the same questions that a
CREATE asks, or by those that Nova asks for it. What we may not ask, or what the cloud's catalog does
not have, is left out: then Nova's own answer has to do, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.api.nova import NotOne
from yaffle.drivers.profiles.nova_server.operations import dependencies, quotas, resize
from yaffle.drivers.profiles.nova_server.operations.dependencies import Missing
from yaffle.drivers.profiles.nova_server.operations.quotas import each
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import mark_of
from yaffle.drivers.profiles.nova_server.tracking.verbs import CREATE
from yaffle.errors import BadRequest, Forbidden, NotFound
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Outlook, Prospect

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Flavor, Server
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation

MENDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "flavor": "make it again",
        "image": "upload it again",
        "network": "make it again",
        "port": "make it again",
        "address": "free it",
        "networks": "leave only one of them",
        "volume": "restore it",
        "snapshot": "restore it",
        "key pair": "import it again",
        "server group": "make it again",
        "availability zone": "get a host of it up again",
    }
)
"""What a person can do about each thing that a server is made of; another profile helps as well."""
NO_ENDPOINT: Final = "EndpointNotFound"
_ACTIVE: Final = "active"
_OURS: Final = frozenset({"address", "port", "volume"})
"""What only one server can have: that one may does not mean that another one may."""
_RESIZED: Final = frozenset({"RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that a server is made of, as its profile names it."""

    what: str
    given: str
    look: Callable[[str], str]
    """Return its id; raise NotFound, NotOne or Missing where it cannot be had."""


def foresee(job: ServerOperation) -> Prospect:
    """Say whether Nova would refuse that CREATE or REBUILD; raises as `Client` does."""
    ident = job.target.physical_id
    old = job.nova.show(ident) if ident else None
    if old is None or old.status == "DELETED":
        # Nova's own answer to a request is the best one, and nothing is lost by asking for it.
        return _possible("there is no server that would be given up")
    if why := _resized(job, old):
        return Prospect(outlook=Outlook.IMPOSSIBLE, detail=why)
    missing = [why for thing in _things(job, old) if (why := _missing(job, old, thing))]
    if job.op.kind == CREATE and not missing:
        missing = [why for quota in quotas.ALL if (why := _told(partial(quota, job, old)))]
    if missing:
        return Prospect(outlook=Outlook.IMPOSSIBLE, detail="; ".join(missing))
    return _possible("")


def _resized(job: ServerOperation, old: Server) -> str:
    """Say why its disk may be on its way to another host, or left on its old one; empty where not.

    A check by URL fails for as long as a resize takes, and what a resize leaves in ERROR mostly has
    its disk: to give such a server up would lose what only waits to be had again.
    """
    mark = mark_of(old.metadata)
    if old.status == "ERROR" and mark is not None and mark.kind == resize.KIND:
        return (
            f"a resize has ended in ERROR, and its disk may be whole: `openstack server set --state"
            f" active {old.id}` and a hard reboot mostly bring it back; delete the server to give it up"
        )
    moving = old.status in _RESIZED or (old.task_state or "").startswith("resize_")
    if moving and job.tasks.stuck(old) is None:
        return f"it is being resized, or waits to be confirmed or reverted: {words_of(old)}"
    return ""


def _possible(detail: str) -> Prospect:
    return Prospect(outlook=Outlook.POSSIBLE, detail=detail)


def _things(job: ServerOperation, old: Server) -> Iterator[Thing]:
    """Yield what the profile, or the policy, names."""
    spec = job.target.spec
    if image := job.op.params.get("image") or spec.get("image"):
        yield Thing(what="image", given=str(image), look=lambda given: _image(job, given))
    if job.op.kind != CREATE:
        return
    yield Thing(what="flavor", given=str(spec["flavor"]), look=lambda given: _flavor(job, given)[0])
    yield from _disks(job, old)
    yield from _connections(job, old)
    if key := spec.get("key_name"):
        yield Thing(what="key pair", given=str(key), look=_seen(job.nova.key_pair))
    # An administrator may add a host: ZONE:HOST:NODE.
    if zone := str(spec.get("availability_zone") or "").partition(":")[0]:
        yield Thing(what="availability zone", given=zone, look=lambda given: _zone(job, given))
    hints = spec.get("scheduler_hints")
    if isinstance(hints, Mapping) and isinstance(group := hints.get("group"), str):
        yield Thing(what="server group", given=group, look=_seen(job.nova.server_group))


def _disks(job: ServerOperation, old: Server) -> Iterator[Thing]:
    # No names, as Nova has it.
    looks: Mapping[object, Callable[[str], str]] = {
        "image": lambda given: _active(job, given, given),
        "volume": lambda given: dependencies.volume(job, old, given),
        "snapshot": lambda given: dependencies.snapshot(job, given),
    }
    for device in each(job.target.spec.get("block_device_mapping_v2")):
        what = device.get("source_type")
        if what in looks and device.get("uuid"):
            yield Thing(what=str(what), given=str(device["uuid"]), look=looks[what])


def _connections(job: ServerOperation, old: Server) -> Iterator[Thing]:
    given = job.target.spec.get("networks")
    if given == "auto":
        look = lambda given: dependencies.any_network(job, given)  # noqa: E731
        yield Thing(what="networks", given="auto", look=look)
    for item in each(given):
        if item.get("port"):
            look = lambda given: dependencies.port(job, old, given)  # noqa: E731
            yield Thing(what="port", given=str(item["port"]), look=look)
        elif network := str(item.get("network") or ""):
            yield Thing(what="network", given=network, look=lambda given: _network(job, given))
            if fixed := item.get("fixed_ip"):
                look = partial(dependencies.address, job, old, network)
                yield Thing(what="address", given=str(fixed), look=look)


def _missing(job: ServerOperation, old: Server, thing: Thing) -> str:
    """Say why a thing cannot be had, and what would help; empty where it can, or we are not told.

    That it is there is remembered for a moment; that it is not is asked anew each time.
    """
    whose = old.id if thing.what in _OURS else job.nova.client.project_id
    place, another = f"{thing.what} {whose}", "or give the cluster another profile"
    try:
        _told(lambda: job.memory.there.of(place, thing.given, job.clock.monotonic_s(), thing.look))
    except NotFound:
        return f"{thing.what} {thing.given} is gone: {MENDED[thing.what]}, {another}"
    except NotOne as error:
        return f"{error}: {MENDED[thing.what]}, {another}"
    except Missing as error:
        return f"{error}: {error.mend or MENDED[thing.what]}, {another}"
    return ""


def _told(ask: Callable[[], str]) -> str:
    """Return the answer; empty where the cloud does not tell us such things at all."""
    try:
        return ask()
    except NotOne:
        raise
    except (Forbidden, BadRequest):
        return ""
    except CloudUnavailable as error:
        if type(error.__cause__).__name__ == NO_ENDPOINT:
            return ""
        raise


# --- one question each ---------------------------------------------------------------------------


def _seen(look: Callable[[str], None]) -> Callable[[str], str]:
    def ident(given: str) -> str:
        look(given)
        return given

    return ident


def _image(job: ServerOperation, given: str) -> str:
    return _active(job, given, job.image(given, anew=True))


def _active(job: ServerOperation, given: str, ident: str) -> str:
    status = job.nova.image_status(ident)
    if status != _ACTIVE:
        raise Missing(f"image {given} is {status}, not {_ACTIVE}")
    return ident


def _flavor(job: ServerOperation, given: str) -> tuple[str, Flavor]:
    ident = job.flavor(given, anew=True)
    return ident, job.nova.flavor(ident)


def _network(job: ServerOperation, given: str) -> str:
    return job.network(given, anew=True)


def _zone(job: ServerOperation, given: str) -> str:
    zones = job.nova.zones()
    if not zones.get(given):
        how = "has no host that is up" if given in zones else "is gone"
        raise Missing(f"availability zone {given} {how}")
    return given
