"""Profiles build, read, change and delete nodes: bounded calls only."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    ActsIn,
    Cause,
    HostReading,
    Inspection,
    Operation,
    OperationSpec,
    Present,
    Progress,
    Promise,
    Prospect,
    Reading,
    Target,
    Vacated,
)
from yaffle.model.properties import Schema


class Profile(Protocol):
    """One kind of node. An operation of ten minutes is a submit and many polls."""

    type: ClassVar[str]
    """Name and version: `yaffle.local.process-1.0`."""
    promises: ClassVar[frozenset[Promise]]
    operations: ClassVar[Mapping[str, OperationSpec]]
    """Everything that `submit` accepts, CREATE and DELETE included, with parameter schemas.

    UPDATE is optional: without it a node that gets another profile is deleted, proved gone, and
    created anew. It never changes the physical id, so that it is declared `in_place`.
    """
    schema: ClassVar[Schema]
    """The properties, as `GET profile-types/T` shows them."""

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
        ...

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each target is, in order, without changing anything."""
        ...

    async def submit(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Start the operation and leave `operation_id` on the target; return without waiting.

        The same id submitted again acts once, if the profile promises DEDUPLICATES. CREATE refuses
        (FAILED) while an older copy of the node may still run, but for those in `op.waived` and
        those that `op.off` proves to be off. DELETE of what is not there is DONE; without a copy's
        id it ends whatever bears the node's mark, and nothing else.
        """
        ...

    async def poll(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Read from the target how far that operation is; ABSENT when it bears no trace of it.

        Works in a process that never saw the submit: this is how a successor reconciles. Where
        the next part of an operation is due that somebody may have to stop, a profile that promises
        DEDUPLICATES says ABSENT, and is submitted to again: a submit is guarded, a poll is not.
        That is at once where something was seen of it in between, else ever more rarely, every
        10 s (`model.timing.RESEND_MAX_S`) at most.
        """
        ...

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return evidence of the failure (console log, last lines), at most 64 KiB; may be empty."""
        ...


@runtime_checkable
class SupportsAdoption(Protocol):
    """Optional capability of a profile: it takes over what somebody else has built."""

    async def inspect(
        self,
        identity: str,
        *,
        overrides: Mapping[str, object],
        snapshot: bool,
        deadline_s: float,
        project: str = "",
    ) -> Inspection:
        """Say what `identity` is, changing nothing; properties bear the overrides already.

        `snapshot`: where the kind knows images, take one that later copies are built from.
        `project`: who asks; seen is what may be seen with that project's credential, where the
        driver acts with those.
        """
        ...

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        """Make the thing that `target.physical_id` names the copy of that node, and leave a mark.

        Doing it twice for the same node is doing it once; REFUSED when it is another node's. From
        then on reading, deleting and every other operation knows the node's copy, as one that
        CREATE had made.
        """
        ...


@runtime_checkable
class SupportsProjects(Protocol):
    """Optional capability of a driver: it may act in one project of a cloud, whoever asks.

    What a profile then tells of a thing has `project_id` among the attributes: whose it is there.
    """

    async def acts_in(self, *, deadline_s: float) -> ActsIn:
        """Say in which project all is done, or that it is each node's own; never a guess."""
        ...


@runtime_checkable
class SupportsDescription(Protocol):
    """Optional capability of a profile: facts for people beyond the attributes of the last act."""

    async def describe(self, target: Target, *, deadline_s: float) -> Mapping[str, object]:
        """Return JSON-able facts about the present copy; empty when there is none. Reads only."""
        ...


@runtime_checkable
class SupportsHostStatus(Protocol):
    """Optional capability of a profile: its nodes run on machines that the backend watches itself."""

    async def hosts(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[HostReading]:
        """Say, in order, how the machine under each node is; reads only.

        A machine that is merely closed to new nodes (disabled, in maintenance) is not down.
        """
        ...


@runtime_checkable
class SupportsHostNames(Protocol):
    """Optional capability of a profile: its backend knows by name the machines that nodes can run on."""

    async def has_host(self, host: str, *, deadline_s: float) -> bool | str:
        """Say whether there is such a machine, or why that cannot be told; reads only."""
        ...


@runtime_checkable
class SupportsReservedHosts(Protocol):
    """Optional capability of a profile: its backend keeps machines closed until they are needed."""

    async def open_host(self, host: str, target: Target, *, deadline_s: float) -> bool | str:
        """Let a machine carry nodes like this one; return whether it does, or why that cannot be told.

        False where it is down, or there is none of that name. One that is open already is left as it is.
        """
        ...


@runtime_checkable
class SupportsEvacuationStatus(Protocol):
    """Optional capability of a profile: its nodes can be moved off a machine, which may come back."""

    async def vacated(self, host: str, targets: Sequence[Target], *, deadline_s: float) -> Vacated:
        """Say how that machine is, and what is left there of the copies that these targets name.

        Reads only; a backend that does not answer is a machine of which nothing is told.
        """
        ...

    async def admit(self, host: str, target: Target, *, deadline_s: float) -> str:
        """Let that machine carry nodes again, where the settings allow it; return what was done.

        Empty: nothing was, because an operator does that here, or the backend did not take it.
        """
        ...


@runtime_checkable
class SupportsInventory(Protocol):
    """Optional capability of a profile: it lists all that the backend has, node or not."""

    async def present(self, *, groups: bool, deadline_s: float) -> Sequence[Present]:
        """Return everything that we may see, the oldest first; reads only.

        `groups`: also what the backend itself puts together. Raises TimeoutError, and YaffleError
        where the backend does not tell.
        """
        ...


@runtime_checkable
class SupportsCauseLookup(Protocol):
    """Optional capability of a profile: its backend records who asked for what."""

    async def cause(self, target: Target, *, deadline_s: float) -> Cause:
        """Say who brought the node into the state it is in now; reads only.

        UNKNOWN where the backend answers that it keeps no such record, or shows it to others only.
        That it does not answer is another thing: UNASKED, or a TimeoutError or YaffleError. USER only
        when a request of somebody's, and nothing after it, explains that state: what a user has
        stopped is not a failure (seed 1; initiator and request id, never a guess).
        """
        ...


@runtime_checkable
class SupportsOrphanLookup(Protocol):
    """Optional capability of a profile: it finds what bears our mark and is no node's any more."""

    async def strays(self, known: Container[str], *, deadline_s: float) -> Sequence[str]:
        """Return a line for a person for each copy here whose node's id is not `known`; reads only.

        Raises TimeoutError or YaffleError where that could not be asked.
        """
        ...


@runtime_checkable
class SupportsPooledReads(Protocol):
    """Optional capability of a profile: one answer of its backend says how many nodes are.

    Their clusters are then looked at in step, and asked about in one `read`.
    """

    def pool(self, target: Target) -> str:
        """Name what one answer is about: who is in the same pool is asked about together. Asks nothing.

        Nodes that are asked about with different credentials are in different pools: what keeps one
        project waiting must not keep another.
        """
        ...


@runtime_checkable
class SupportsPreflight(Protocol):
    """Optional capability of a profile: it can tell what an operation would be refused for."""

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        """Say whether what a CREATE or a REBUILD needs is there; reads only.

        Asked before the present copy, or its disk, is given up for it; what the copy uses counts as
        free where it would be deleted first. IMPOSSIBLE only by the backend's own word: what cannot
        be asked now is UNKNOWN, and what we may never ask is left out.
        """
        ...


@runtime_checkable
class SupportsUndo(Protocol):
    """Optional capability of a profile: some mishaps have a cure that is cheaper than any policy's."""

    cures: ClassVar[Mapping[str, str]]
    """By `Reading.event`, the operation that undoes it: in place, without parameters, harmless."""
