"""Targets, operations, progress and proofs: what drivers are asked and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from yaffle.model.ids import ClusterId, NodeId

EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node as a driver sees it: everything needed to find it and to build it again."""

    node_id: NodeId
    name: str
    physical_id: str
    """The backend's id of the present copy; empty before the first CREATE."""
    cluster_id: ClusterId | None = None
    cluster_name: str = ""
    index: int = -1
    profile_type: str
    """`yaffle.local.process-1.0`."""
    spec: Mapping[str, object]
    """Properties of the profile, as validated by the driver."""
    attributes: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    """Facts that the driver reported: node_ip, port, availability_zone, …"""
    project: str = ""
    """Whose node it is, and with whose credential it is asked about where each project has its own."""
    host_lost: bool = False
    """The machine under it was lost when it was looked at last, and nothing is proved of the copy. Where
    that machine carries it again, what was seen is no reason any more: `Hindrance.OVER`."""


class OperationKind(StrEnum):
    """Verbs that profiles may offer; CREATE and DELETE are mandatory."""

    CREATE = "CREATE"
    DELETE = "DELETE"
    REBOOT = "REBOOT"
    REBUILD = "REBUILD"
    START = "START"
    STOP = "STOP"
    UPDATE = "UPDATE"
    """Optional: give the present copy the properties in `op.target.spec`; `params` is `{"old": …}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredOff:
    """A machine that a power switch has read back as off: no guest of it runs, until it reports again."""

    host: str
    """The backend's name of it."""
    reported: str = ""
    """When it had reported last before that, in the backend's words; empty where nobody told."""
    since_s: int | None = None
    """When somebody else had switched it off (seconds since the epoch); None where we did."""
    word: bool = False
    """Whether that is somebody's word, who tells of the failure, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One verb on one target."""

    kind: str
    """An `OperationKind`, or a name the profile declares in its `operations`."""
    target: Target
    params: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    timeout_s: float = 600.0
    off: PoweredOff | None = None
    """What a fence of this very rung has proved: DELETE and CREATE may go by it."""
    waived: frozenset[str] = frozenset()
    """Physical ids of old copies beside which CREATE may start another one, though nothing proves their
    end: an operator has consented to it (`node_force_recreate`), and that is on record."""


class ProgressState(StrEnum):
    """State of an operation."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABSENT = "absent"
    """The target bears no trace of that operation id, or not of its next part: it was never submitted,
    was superseded, or is to be submitted again."""


class Hindrance(StrEnum):
    """Why an answer says nothing of whether an act can help: no reason to try a stronger one."""

    NONE = ""
    UNASKED = "unasked"
    """The backend gave no usable answer: it is away, fails, or is too slow."""
    BARRED = "barred"
    """Somebody has seen to it that the target is left alone; nothing was done."""
    OVER = "over"
    """What was seen of the target, and is the reason of the act, is so no more; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Answer of `submit` and `poll`."""

    state: ProgressState
    detail: str = ""
    """One line for a person; for FAILED what failed, on what, and why."""
    physical_id: str | None = None
    """Set when the operation made a new copy."""
    attributes: Mapping[str, object] | None = None
    """Set when the operation changed them; replaces the stored ones."""
    hindrance: Hindrance = Hindrance.NONE
    """With RUNNING and FAILED: nothing is said of the operation; it could not, or must not, be asked."""
    method: str = ""
    """With DONE, how the profile did and proved it: a fencer's proof says so."""
    left_host: str = ""
    """The machine that the copy was, or may have been, moved off."""
    untold: bool = False
    """The backend gave no usable answer, so that what it said before tells more."""
    refused: bool = False
    """With FAILED, set by the engine: so was the very first request answered, and nothing was begun."""
    outstanding: bool = False
    """Set by the engine: a request that got no answer may still arrive, whatever has ended here."""

    @classmethod
    def not_begun(cls, why: str) -> Progress:
        """Return that nothing was begun for a reason of ours: no word of whether it would help.

        A recovery is held then and its attempt given back; a stronger act needs a better reason.
        """
        return cls(state=ProgressState.FAILED, detail=why, hindrance=Hindrance.UNASKED, untold=True)


class Outlook(StrEnum):
    """Whether an operation could succeed, as far as the backend tells beforehand."""

    POSSIBLE = "possible"
    """Nothing is known to be missing; no promise."""
    IMPOSSIBLE = "impossible"
    """The backend says that something is missing without which it would refuse."""
    UNKNOWN = "unknown"
    """It could not be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """Outlook of an operation before it is begun, by the backend's word."""

    outlook: Outlook
    detail: str
    """One line for a person; for IMPOSSIBLE what is missing, and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A node as the backend says it is right now."""

    exists: bool
    """Whether a copy may exist at all (a stopped one does)."""
    up: bool | None
    """True: running by the backend's word. None: could not tell."""
    backend_status: str
    detail: str
    physical_id: str = ""
    event: str = ""
    """What must have happened to it, in seed 1's words (PAUSE, POWER_OFF, SOFT_DELETE, …)."""
    attributes: Mapping[str, object] | None = None
    """What is stored of a node with its copy (`Progress.attributes`); told by profiles whose copies
    have any where the copy that was read is another than the one that was asked for. Of the one
    that was asked for, such facts as may change while it runs: the host that it is on."""
    stuck: bool = False
    """What the backend is doing to it moves no more: a failure, whatever `up` is."""
    asked: bool = True
    """False: the backend gave no usable answer, so that the rest says nothing."""
    kept: str = ""
    """Why nobody may touch it, and how that is taken back: it is locked; empty where it is not."""
    age_us: int = 0
    """How long before it was asked for this was asked of the backend: of a list that was made for
    somebody else. What it says may be as old as that, and nothing newer is proved by it."""


class Actor(StrEnum):
    """Originator of the last thing that changed a node."""

    USER = "user"
    """Somebody asked the backend for it."""
    OURSELVES = "ourselves"
    NOBODY = "nobody"
    """It happened; nobody asked for it."""
    UNKNOWN = "unknown"
    """The backend was asked: it keeps no record of that, or shows it to others only."""
    UNASKED = "unasked"
    """The backend could not be asked, or not in time: a reason to ask again, and never to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a node is as it is, as far as the backend keeps a record of requests."""

    actor: Actor
    detail: str
    """One line: what was asked, by whom, when, under which request id."""
    keeps: bool = True
    """Whether somebody who wished it so wants to have the copy again as it is. False of a deletion, and
    of a state that no request leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The machine under a node as the backend says it is right now."""

    name: str
    """The backend's name of that machine; empty where it told none."""
    up: bool | None
    """False only when the backend has lost the machine. None: could not tell."""
    detail: str
    exists: bool = True
    """Whether the backend knows such a machine at all; a node without one was never placed."""
    forced_down: bool = False
    """Somebody, or a fencer, has told the backend that the machine is dead."""
    enabled: bool = True
    """Whether new nodes may be placed there; says nothing about its health."""
    reported: str = ""
    """When it reported last, in the backend's words: it lives while that changes; may be empty."""


class OldCopy(StrEnum):
    """A copy on the machine that its node was moved off, as the backend knows it."""

    LEFT = "left"
    """It may still be there, and run again."""
    GONE = "gone"
    """That machine itself has removed it, by the backend's record."""
    PRESENT = "present"
    """It was never moved: that machine has the copy that the node is now."""
    UNTOLD = "untold"
    """The backend does not say, or has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacated:
    """A machine that nodes were moved off, as the backend knows it."""

    name: str
    up: bool | None
    """Whether it carries nodes by the backend's word. None: could not tell."""
    barred: bool
    """Somebody has told the backend that it is dead, and nobody has taken that back."""
    reported: str
    """When it reported last, in the backend's words: it lives while that changes; may be empty."""
    copies: Mapping[str, OldCopy]
    """By physical id, of those that were asked for."""
    detail: str
    admit: str
    """The command by which a person lets it carry nodes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Why we are sure that the old copy cannot act (design/failure#recovery)."""

    method: str
    evidence: str
    at_us: int
    by: str


class FenceVerdict(StrEnum):
    """A fence is proved, refused, or in doubt: never a bool. "Already off" is confirmed."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceResult:
    """Result of a fencer; `proof` is set exactly when confirmed."""

    verdict: FenceVerdict
    detail: str
    proof: Proof | None = None
    off: PoweredOff | None = None
    """With a proof: the machine that was read back as off."""
    hindrance: Hindrance = Hindrance.NONE
    """With any other verdict, as `Progress.hindrance`."""


class Promise(StrEnum):
    """A guarantee of a driver; the planner and the executor ask before they rely on it."""

    DEDUPLICATES = "deduplicates"
    """The same operation id submitted twice acts once."""
    CONFIRMS_DELETE = "confirms_delete"
    """DELETE reports DONE only when the copy is proved gone."""
    KEEPS_ID = "keeps_id"
    """RECREATE keeps the physical id."""
    GONE_FOR_GOOD = "gone_for_good"
    """A copy that the backend does not know any more cannot be helped where it was: no in-place verb
    brings it back."""
    CONFIRMS_POWER = "confirms_power"
    """A fencer reads back that the power is off."""
    CUTS_STORAGE = "cuts_storage"
    SURVIVES_ENGINE = "survives_engine"
    """Nodes keep running when the engine dies."""
    STAYS_AT_HOME = "stays_at_home"
    """A node lives on the machine of the engine that made it alone (`model.machine_identity`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamSpec:
    """One parameter of an operation."""

    type: type
    required: bool = False
    default: object = None
    choices: tuple[object, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSpec:
    """Declaration of one operation by a profile."""

    description: str
    in_place: bool
    """Cannot create a second copy, hence needs no fence."""
    params: Mapping[str, ParamSpec] = field(default_factory=lambda: MappingProxyType({}))
    internal: bool = False
    """For the engine and its fencers alone: nobody may ask for it by name."""
    caveat: str = ""
    """When it will be refused, for the author of a policy that relies on it; empty: never by design."""


ENGINES_OWN: Final = frozenset(
    {OperationKind.CREATE.value, OperationKind.DELETE.value, OperationKind.UPDATE.value}
)
"""Verbs that are reached through the life cycle of a node, never as an operation by name."""


def on_the_wire(operations: Mapping[str, OperationSpec]) -> dict[str, OperationSpec]:
    """Return what people may ask for, by its name in the API: lower case there, upper case inside.

    This function and `inside` are the one place where the two spellings meet.
    """
    return {
        name.lower(): spec
        for name, spec in operations.items()
        if name not in ENGINES_OWN and not spec.internal
    }


def inside(operations: Mapping[str, OperationSpec], wire_name: str) -> str | None:
    """Return the operation that a name of the API stands for; None where it is not offered."""
    return next(
        (n for n in operations if n.lower() == wire_name and wire_name in on_the_wire(operations)),
        None,
    )


class InspectionState(StrEnum):
    """Result of looking for something to adopt."""

    FOUND = "found"
    ABSENT = "absent"
    """There is no such thing."""
    REFUSED = "refused"
    """It is there, and must not or cannot be a node of ours: the detail says why."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A running thing that is to become a node, as a driver sees it."""

    state: InspectionState
    detail: str
    physical_id: str = ""
    properties: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    """A profile that would build another one like it."""
    attributes: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    owner: str = ""
    """With REFUSED: the id of the node whose mark it bears, where it bears one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActsIn:
    """Project of a cloud that a driver acts in, and so whose servers and whose quota it uses."""

    per_project: bool = False
    """In each node's own project, with a credential of that project."""
    project: str = ""
    """Else the one project of its one credential, by its id; empty while that is not known."""
    detail: str = ""
    """Why it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Something that the backend has, whether or not it is anybody's node."""

    physical_id: str
    name: str
    """As the backend has it: any text, and not the only one of its name."""
    detail: str
    """One line: how it is, in the backend's words."""
    owner: str = ""
    """Id of the node whose copy it is marked as; empty where nobody claims it."""
    facts: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    """What it may be grouped by: project_id, zone, host, group_id, group, metadata."""


class Delivery(StrEnum):
    """Result of a delivery at a notifier's receiver; the driver says whether trying again is worth it."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    REFUSED = "refused"
