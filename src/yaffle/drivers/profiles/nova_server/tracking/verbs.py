"""Verbs of a server that is there: the request, the act that Nova remembers, and the goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.integrations.openstack.servers.status_mapping import HARMLESS, row_of
from yaffle.model.operations import OperationSpec, ParamSpec

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server

KILL: Final = "KILL"
CREATE, DELETE, UPDATE = "CREATE", "DELETE", "UPDATE"
EVACUATE: Final = "EVACUATE"
REBUILD: Final = "REBUILD"
SNAPSHOT: Final = "SNAPSHOT"
DISCARD: Final = "DISCARD"
START: Final = "START"
HOSTLESS: Final = frozenset({EVACUATE, "LOCK", "UNLOCK"})
"""What Nova does to a server without asking anything of the host that it is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb that keeps the copy where it is."""

    act: str
    """Nova's name for it in `os-instance-actions`."""
    body: Callable[[Mapping[str, object]], Mapping[str, object]]
    """The request, from the parameters."""
    reached: Callable[[Server], bool]
    """Whether the server is as the verb would have it: then there is nothing to do."""
    by_state: bool = True
    """Done when the state is reached; False for what has to happen whatever the state is."""
    starts: bool = False
    """It has to run afterwards, also where Nova leaves it off."""


IMAGED: Final = ("ACTIVE", "PAUSED", "SHUTOFF", "SUSPENDED")
"""Statuses of which Nova takes an image (`snapshot` in its compute/api.py); others it refuses: 409."""
OVERRULED: Final = frozenset(
    {
        "pausing",
        "reboot_pending",
        "reboot_started",
        "rebooting",
        "rebooting_hard",
        "resuming",
        "suspending",
        "unpausing",
    }
)
"""Tasks under which Nova accepts a HARD reboot all the same (ALLOW_REBOOT in its task_states.py)."""


def idle(server: Server) -> bool:
    """Whether nothing is being done to a server that others would have to wait for."""
    return server.task_state is None or server.task_state in HARMLESS


def runs(server: Server) -> bool:
    """Whether the guest runs by Nova's own word."""
    return row_of(server).up is True


def _is(status: str) -> Callable[[Server], bool]:
    return lambda server: server.status == status and idle(server)


def _plain(key: str) -> Callable[[Mapping[str, object]], Mapping[str, object]]:
    return lambda _: {key: None}


def _reboot(params: Mapping[str, object]) -> Mapping[str, object]:
    return {"reboot": {"type": str(params.get("type") or "HARD").upper()}}


def overrules(body: Mapping[str, object], server: Server) -> bool:
    """Whether Nova may accept the request although something else is being done to the server."""
    return body == {"reboot": {"type": "HARD"}} and server.task_state in OVERRULED


def _rescue(params: Mapping[str, object]) -> Mapping[str, object]:
    image, password = params.get("image_ref"), params.get("admin_pass")
    inner = {
        **({"rescue_image_ref": image} if image else {}),
        **({"adminPass": password} if password else {}),
    }
    return {"rescue": inner or None}


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "REBOOT": Verb(act="reboot", body=_reboot, reached=runs, by_state=False),
        START: Verb(act="start", body=_plain("os-start"), reached=runs),
        "STOP": Verb(act="stop", body=_plain("os-stop"), reached=_is("SHUTOFF")),
        "PAUSE": Verb(act="pause", body=_plain("pause"), reached=_is("PAUSED")),
        "UNPAUSE": Verb(act="unpause", body=_plain("unpause"), reached=runs),
        "SUSPEND": Verb(act="suspend", body=_plain("suspend"), reached=_is("SUSPENDED")),
        "RESUME": Verb(act="resume", body=_plain("resume"), reached=runs),
        "LOCK": Verb(act="lock", body=_plain("lock"), reached=lambda s: s.locked),
        "UNLOCK": Verb(act="unlock", body=_plain("unlock"), reached=lambda s: not s.locked),
        "RESCUE": Verb(act="rescue", body=_rescue, reached=_is("RESCUE")),
        "UNRESCUE": Verb(act="unrescue", body=_plain("unrescue"), reached=runs),
        "RESTORE": Verb(act="restore", body=_plain("restore"), reached=runs),
        "CHANGE_PASSWORD": Verb(
            act="changePassword",
            body=lambda params: {"changePassword": {"adminPass": params.get("admin_pass")}},
            reached=runs,
            by_state=False,
        ),
    }
)


def _spec(
    description: str,
    *,
    in_place: bool = True,
    internal: bool = False,
    caveat: str = "",
    **params: ParamSpec,
) -> OperationSpec:
    return OperationSpec(
        description=description,
        in_place=in_place,
        internal=internal,
        caveat=caveat,
        params=MappingProxyType(params),
    )


_PASSWORD: Final = ParamSpec(type=str, description="The administrator's new password.")

OPERATIONS: Final[Mapping[str, OperationSpec]] = MappingProxyType(
    {
        CREATE: _spec(
            "Boot a new server; refused while an older copy may run that is not waived.",
            in_place=False,
            image=ParamSpec(type=str, description="Id or name; the profile's unless given."),
        ),
        DELETE: _spec("Delete it, and have it proved that its host has ended the guest."),
        UPDATE: _spec(
            "Give it other networks, another flavor (a resize, confirmed), another image (rebuilding"
            " it), another name or other metadata: in this order."
        ),
        "REBOOT": _spec(
            "Restart the guest.",
            type=ParamSpec(
                type=str,
                default="HARD",
                choices=("SOFT", "HARD"),
                description="SOFT asks the guest; HARD is the power button, also out of ERROR.",
            ),
        ),
        REBUILD: _spec(
            "Make it anew from an image: same id, host, name, ports and volumes; its disk is lost.",
            image=ParamSpec(type=str, description="Id or name; the profile's unless given."),
            admin_pass=_PASSWORD,
        ),
        EVACUATE: _spec(
            "Run it on another host; refused unless Nova has lost the one that it is on.",
            in_place=False,
            host=ParamSpec(type=str, description="Where to; the scheduler chooses unless given."),
        ),
        "CHANGE_PASSWORD": _spec(
            "Change the administrator's password.",
            admin_pass=ParamSpec(
                type=str, required=True, description="The administrator's new password."
            ),
        ),
        "PAUSE": _spec("Freeze the guest in memory."),
        "UNPAUSE": _spec("Let a paused guest go on."),
        "SUSPEND": _spec("Freeze the guest on disk."),
        "RESUME": _spec("Let a suspended guest go on."),
        "LOCK": _spec("Keep everybody but administrators from changing it."),
        "UNLOCK": _spec("Let its owner change it again."),
        START: _spec("Switch it on."),
        "STOP": _spec("Switch it off; the node stays, off."),
        "RESCUE": _spec(
            "Boot it from a rescue image, its own disk beside.",
            image_ref=ParamSpec(type=str, description="Id of the rescue image."),
            admin_pass=_PASSWORD,
        ),
        "UNRESCUE": _spec("Boot it from its own disk again."),
        "RESTORE": _spec("Bring back what was deleted softly."),
        SNAPSHOT: _spec(
            "Take an image of its disk; the image stays until somebody deletes it.",
            caveat=(
                f"Nova takes an image of a server that is {', '.join(IMAGED[:-1])} or {IMAGED[-1]}, and"
                " boots from an image; of one in ERROR, or on a dead host, it takes none, and the disk"
                " is then given up without"
            ),
        ),
        DISCARD: _spec("Delete images that recoveries have taken of it.", internal=True),
        KILL: _spec("Delete it by force and have that proved (fencing).", internal=True),
    }
)
CURES: Final[Mapping[str, str]] = MappingProxyType(
    {"POWER_OFF": START, "PAUSE": "UNPAUSE", "SUSPEND": "RESUME", "SOFT_DELETE": "RESTORE"}
)
"""The cheapest cure of each event; what Nova never hears of has none, for Nova refuses it."""
