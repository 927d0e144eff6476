"""The truth that drivers can only ask about: which copies of which node ran, from when to when.

Everything is in memory and happens at its own time: an operation that takes 20 s takes effect 20 s
after it arrived, whether or not anybody polls. Whatever reads the world first lets that happen
(`settle`), so the history is exact and needs no task of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import EMPTY, ProgressState

if TYPE_CHECKING:
    from yaffle.ports import Clock


@dataclass(slots=True, kw_only=True, eq=False)
class Copy:
    """One running instance of a node; a dead one never runs again under the same object."""

    node_id: NodeId
    physical_id: str
    made_by: str
    started_s: float
    stopped_s: float | None = None
    serving: bool = True
    """Alive but not serving: hung, frozen, unhealthy. It may still write to its disk."""
    spec: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    """The properties it was made with, or was given since."""

    def alive_at(self, at_s: float) -> bool:
        """Whether it ran at that moment."""
        return self.started_s <= at_s and (self.stopped_s is None or at_s < self.stopped_s)


class Fate(StrEnum):
    """Fate of a request once it has arrived."""

    DONE = "done"
    FAILED = "failed"
    HALF = "half"


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One operation that arrived, or will arrive, at the backend."""

    operation_id: OperationId
    kind: str
    node_id: NodeId
    physical_id: str
    """The copy that is meant; empty for whatever there is."""
    arrives_s: float
    due_s: float
    fate: Fate
    refuse_known: bool
    waived: frozenset[str] = frozenset()
    """Copies beside which a CREATE may start another one, by an operator's word."""
    spec: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    state: ProgressState = ProgressState.RUNNING
    detail: str = ""
    made: str | None = None
    image: str = ""
    """What a snapshot is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One side effect: what an invariant checker counts."""

    at_s: float
    operation_id: OperationId
    kind: str
    node_id: NodeId
    physical_id: str


STRAY: Final = NodeId("")
"""Under this id the world keeps what no node owns: built by somebody else, up for adoption."""


@dataclass(slots=True, kw_only=True)
class World:
    """Copies, operations and their history."""

    clock: Clock
    copies: dict[NodeId, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[Job] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    overlaps: list[tuple[Copy, Copy]] = field(default_factory=list)
    """Every time a copy was started while another one of the node was alive."""
    partitioned: bool = False
    """The watcher is cut off from every node and every backend."""
    deleted: set[str] = field(default_factory=set)
    """Physical ids of copies whose end was confirmed: nothing that is still under way starts them."""
    _numbers: dict[NodeId, int] = field(default_factory=lambda: defaultdict(int))

    # --- reading -----------------------------------------------------------------------------

    def alive(self, node_id: NodeId) -> list[Copy]:
        """Return the copies that run now."""
        self.settle()
        return [c for c in self.copies[node_id] if c.stopped_s is None]

    def present(self, node_id: NodeId) -> Copy | None:
        """Return the newest copy, running or not."""
        self.settle()
        return self.copies[node_id][-1] if self.copies[node_id] else None

    def serving(self, node_id: NodeId) -> bool:
        """Whether somebody who asks the node is answered."""
        return any(c.serving for c in self.alive(node_id))

    def find(self, operation_id: OperationId) -> Job | None:
        """Return the latest arrived operation of that id."""
        self.settle()
        now_s = self.clock.monotonic_s()
        found = [j for j in self.jobs if j.operation_id == operation_id and j.arrives_s <= now_s]
        return found[-1] if found else None

    def taking(self, node_id: NodeId) -> list[Job]:
        """Return the snapshots of the node that are being taken now."""
        self.settle()
        now_s = self.clock.monotonic_s()
        running = [
            j for j in self.jobs if j.state is ProgressState.RUNNING and j.arrives_s <= now_s
        ]
        return [j for j in running if j.kind == "SNAPSHOT" and j.node_id == node_id]

    def images(self, node_id: NodeId) -> list[Job]:
        """Return the snapshots that were taken of the node and are there, the newest first."""
        self.settle()
        taken = [j for j in self.jobs if j.image and j.node_id == node_id]
        return sorted(taken, key=lambda job: job.due_s, reverse=True)

    def built_from(self, image: str) -> bool:
        """Whether the newest copy of any node was made from it, and runs."""
        living = [known[-1] for known in self.copies.values() if known]
        return any(c.spec.get("image") == image and c.stopped_s is None for c in living)

    # --- weather -----------------------------------------------------------------------------

    def kill(self, node_id: NodeId) -> None:
        """Every copy of the node dies now."""
        for copy in self.alive(node_id):
            copy.stopped_s = self.clock.monotonic_s()

    def hang(self, node_id: NodeId) -> None:
        """The node runs on but serves nobody."""
        for copy in self.alive(node_id):
            copy.serving = False

    def revive(self, node_id: NodeId) -> None:
        """Let what hung go on, as after SIGCONT; what died stays dead."""
        for copy in self.alive(node_id):
            copy.serving = True

    def appear(self, physical_id: str, spec: Mapping[str, object]) -> None:
        """Somebody else builds something."""
        self.copies[STRAY].append(
            Copy(
                node_id=STRAY,
                physical_id=physical_id,
                made_by="somebody else",
                started_s=self.clock.monotonic_s(),
                spec=spec,
            )
        )

    # --- adoption ----------------------------------------------------------------------------

    def owner(self, physical_id: str) -> Copy | None:
        """Return the living copy of that id, whosever it is."""
        self.settle()
        copies = (c for known in self.copies.values() for c in known)
        return next((c for c in copies if c.physical_id == physical_id and not c.stopped_s), None)

    def give(self, physical_id: str, node_id: NodeId) -> bool:
        """Let a stray be that node's copy; False where it is another's, or the node has one."""
        found = self.owner(physical_id)
        if found is None or found.node_id not in {STRAY, node_id}:
            return False
        if found.node_id == STRAY:
            if self.alive(node_id):
                return False
            self.copies[STRAY].remove(found)
            found.node_id = node_id
            self.copies[node_id].append(found)
        return True

    # --- operations --------------------------------------------------------------------------

    def add(self, job: Job) -> Job:
        """Let a request be on its way; it takes effect in its own time."""
        self.jobs.append(job)
        self.settle()
        return job

    def settle(self) -> None:
        """Let everything happen that is due, in the order in which it is due."""
        now_s = self.clock.monotonic_s()
        due = [j for j in self.jobs if j.state is ProgressState.RUNNING and j.due_s <= now_s]
        for job in sorted(due, key=lambda j: j.due_s):
            self._carry_out(job)

    def _carry_out(self, job: Job) -> None:
        if job.fate is Fate.FAILED:
            job.state, job.detail = ProgressState.FAILED, f"{job.kind} failed: the backend says no"
            return
        half = job.fate is Fate.HALF
        match job.kind:
            case "CREATE":
                self._create(job, half=half)
            case "DELETE":
                self._stop(job, self._meant(job))
                self.confirm_gone(job.node_id, job.physical_id)
            case "KILL" | "STOP":
                self._stop(job, self._meant(job))
            case "UPDATE":
                self._update(job)
            case "START" if self._meant(job):
                pass
            case "SNAPSHOT":
                self._keep(job)
            case _:
                self._restart(job, half=half)
        if half and job.state is ProgressState.RUNNING:
            job.state, job.detail = ProgressState.FAILED, f"{job.kind} failed half-way"
        elif job.state is ProgressState.RUNNING:
            job.state, job.detail = ProgressState.DONE, f"{job.kind} done"

    def confirm_gone(self, node_id: NodeId, physical_id: str) -> None:
        """Keep the word that a copy is deleted: a restart that comes to be later finds none."""
        every = {c.physical_id for c in self.copies[node_id]}
        self.deleted |= {physical_id} if physical_id else every

    def _meant(self, job: Job) -> list[Copy]:
        """Return the living copies that the operation names."""
        running = [c for c in self.copies[job.node_id] if c.stopped_s is None]
        return [c for c in running if job.physical_id in {"", c.physical_id}]

    def in_the_way(self, job: Job) -> Copy | None:
        """Return a copy that forbids a CREATE."""
        for copy in self.copies[job.node_id]:
            known = copy.physical_id == job.physical_id
            if copy.physical_id in job.waived:
                continue
            if copy.stopped_s is None and (job.refuse_known or not known):
                return copy
        return None

    def _create(self, job: Job, *, half: bool) -> None:
        older = self.in_the_way(job)
        if older is not None:
            job.state = ProgressState.FAILED
            job.detail = f"CREATE refused: copy {older.physical_id} still runs"
            return
        self._numbers[job.node_id] += 1
        job.made = f"{job.node_id[:8]}/{self._numbers[job.node_id]}"
        self._start(job, job.made, serving=not half, spec=job.spec)

    def _update(self, job: Job) -> None:
        meant = self._meant(job)
        if not meant:
            job.state, job.detail = ProgressState.FAILED, "UPDATE: there is no such copy"
            return
        for copy in meant:
            copy.spec = job.spec
            self._note(job, copy.physical_id)

    def _keep(self, job: Job) -> None:
        """Take an image: of a copy that runs or was stopped, and is not deleted."""
        every = self.copies[job.node_id]
        if not every or every[-1].physical_id in self.deleted:
            job.state, job.detail = ProgressState.FAILED, "SNAPSHOT: there is no such copy"
            return
        again = sum(a.kind == "SNAPSHOT" and a.node_id == job.node_id for a in self.acts)
        job.image = f"image of {every[-1].physical_id}{f' ({again})' if again else ''}"
        self._note(job, every[-1].physical_id)

    def _restart(self, job: Job, *, half: bool) -> None:
        meant = self._meant(job)
        known = {c.physical_id for c in self.copies[job.node_id]}
        if not meant and (job.physical_id or "?") not in known:
            job.state, job.detail = ProgressState.FAILED, f"{job.kind}: there is no such copy"
            return
        last = self.copies[job.node_id][-1]
        newest = last.physical_id
        if job.physical_id not in {"", newest}:
            job.state, job.detail = ProgressState.FAILED, f"{job.kind}: that copy was replaced"
            return
        if newest in self.deleted:
            job.state, job.detail = ProgressState.FAILED, f"{job.kind}: that copy was deleted"
            return
        self._stop(job, meant)
        if not half:
            made_of = job.spec if job.kind == "REBUILD" else last.spec
            self._start(job, newest, serving=True, spec=made_of)

    def _start(
        self, job: Job, physical_id: str, *, serving: bool, spec: Mapping[str, object]
    ) -> None:
        copy = Copy(
            node_id=job.node_id,
            physical_id=physical_id,
            made_by=job.operation_id,
            started_s=job.due_s,
            serving=serving,
            spec=spec,
        )
        for other in self.copies[job.node_id]:
            if other.alive_at(job.due_s):
                self.overlaps.append((other, copy))
        self.copies[job.node_id].append(copy)
        self._note(job, physical_id)

    def _stop(self, job: Job, copies: list[Copy]) -> None:
        for copy in copies:
            copy.stopped_s = job.due_s
            self._note(job, copy.physical_id)

    def _note(self, job: Job, physical_id: str) -> None:
        self.acts.append(
            Act(
                at_s=job.due_s,
                operation_id=job.operation_id,
                kind=job.kind,
                node_id=job.node_id,
                physical_id=physical_id,
            )
        )
