"""A profile whose backend is a `World` and whose bad days are written down in a `FaultPlan`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.errors import InvalidSpec
from yaffle.model.operations import (
    Hindrance,
    Inspection,
    InspectionState,
    OperationSpec,
    Outlook,
    ParamSpec,
    Progress,
    ProgressState,
    Promise,
    Prospect,
    Reading,
)
from yaffle.model.properties import Schema, SchemaNode, ValueType
from yaffle.testing.faults import Broken, Fault, FaultPlan
from yaffle.testing.world import STRAY, Fate, Job, World

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Operation, Target
    from yaffle.ports import Profile, SupportsAdoption, SupportsDescription, SupportsPreflight
    from yaffle.testing.faults import Rule

NEVER_S: Final = 1e9
IMAGES_KEPT: Final = 2
"""How many images of a node are kept."""
SPEC_KEYS: Final[Mapping[str, float]] = MappingProxyType(
    {"create_s": 2.0, "delete_s": 1.0, "reboot_s": 1.0, "snapshot_s": 1.0, "answer_s": 0.02}
)
"""Properties and their defaults, seconds: how long the backend takes for what."""
WORDS: Final[Mapping[str, str]] = MappingProxyType({"image": "", "label": ""})
"""Two texts that mean nothing: a label can be changed on a copy, an image takes a new one."""
SCHEMA: Final[Schema] = MappingProxyType(
    {
        **{
            name: SchemaNode(
                type=ValueType.NUMBER,
                description=f"How long the backend takes to {name.removesuffix('_s')} (s).",
                default=default,
                updatable=True,
            )
            for name, default in SPEC_KEYS.items()
        },
        "image": SchemaNode(type=ValueType.STRING, description="What a copy is made of."),
        "label": SchemaNode(
            type=ValueType.STRING, description="What is written on it.", updatable=True
        ),
    }
)
DURATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"CREATE": "create_s", "DELETE": "delete_s", "KILL": "delete_s", "SNAPSHOT": "snapshot_s"}
)
OPERATIONS: Final[Mapping[str, OperationSpec]] = MappingProxyType(
    {
        "CREATE": OperationSpec(description="Start a new copy.", in_place=False),
        "DELETE": OperationSpec(description="Stop the copy that is named.", in_place=True),
        "KILL": OperationSpec(
            description="Stop it at once (fencing).", in_place=True, internal=True
        ),
        "UPDATE": OperationSpec(description="Give it other properties.", in_place=True),
        "STOP": OperationSpec(description="Stop the copy; it stays.", in_place=True),
        "START": OperationSpec(description="Start the copy that was stopped.", in_place=True),
        "REBOOT": OperationSpec(
            description="Stop and start the same copy.",
            in_place=True,
            params=MappingProxyType(
                {"type": ParamSpec(type=str, default="HARD", choices=("SOFT", "HARD"))}
            ),
        ),
        "REBUILD": OperationSpec(
            description="Make the same copy anew.",
            in_place=True,
            params=MappingProxyType({"image": ParamSpec(type=str)}),
        ),
        "SNAPSHOT": OperationSpec(
            description="Take an image of the copy.",
            in_place=True,
            caveat="of a copy that is deleted none is taken",
        ),
        "DISCARD": OperationSpec(
            description="Delete images of it that nobody waits for.", in_place=True, internal=True
        ),
    }
)


class ScriptedProfile:
    """Keeps every promise of the port unless the plan says otherwise.

    `careful`: CREATE refuses while *any* older copy runs, as the port asks. A careless backend
    refuses only for copies that the caller does not know of: it believes a caller who says that the
    copy it names is dead, so that a simulation sees who was wrong about that.
    """

    type: ClassVar[str] = "yaffle.scripted-1.0"
    promises: ClassVar[frozenset[Promise]] = frozenset(
        {Promise.DEDUPLICATES, Promise.CONFIRMS_DELETE, Promise.SURVIVES_ENGINE}
    )
    operations: ClassVar[Mapping[str, OperationSpec]] = OPERATIONS
    schema: ClassVar[Schema] = SCHEMA

    def __init__(
        self, world: World, plan: FaultPlan | None = None, *, careful: bool = True
    ) -> None:
        self.world = world
        self.plan = plan or FaultPlan(world.clock)
        self._careful = careful

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults; raise InvalidSpec naming every fault."""
        problems = [f"{k}: no such property" for k in spec if k not in SCHEMA]
        problems += [
            f"{k}: {v!r} is not a text"
            for k, v in spec.items()
            if k in WORDS and not isinstance(v, str)
        ]
        problems += [
            f"{k}: {v!r} is not a number of seconds"
            for k, v in spec.items()
            if k in SPEC_KEYS and not _is_seconds(v)
        ]
        if problems:
            raise InvalidSpec(problems)
        return {**SPEC_KEYS, **WORDS, **spec}

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each copy is, in order."""
        rule = self.plan.strike("read", targets[0] if targets else None)
        fault = self._met(rule)
        unclear = [_unclear("the backend did not answer")] * len(targets)
        if not await self._reaches(fault, targets, deadline_s) or fault is Fault.LOSE:
            return unclear
        if fault in {Fault.FAIL, Fault.HALF}:
            return [_unclear("the backend cannot tell")] * len(targets)
        return [self._reading(t, lie=fault is Fault.LIE) for t in targets]

    def _reading(self, target: Target, *, lie: bool) -> Reading:
        copy = self.world.present(target.node_id)
        ident = copy.physical_id if copy is not None else ""
        up = copy is not None and copy.stopped_s is None
        if up is not lie:
            other = ident != target.physical_id
            return Reading(
                exists=True,
                up=True,
                backend_status="ACTIVE",
                detail="",
                physical_id=ident,
                attributes=_facts(target.node_id) if other else None,
            )
        word = "SHUTOFF" if copy is not None else "GONE"
        return Reading(
            exists=False, up=False, backend_status=word, detail="it does not run", physical_id=ident
        )

    async def submit(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Start the operation in the world; the same id acts once."""
        rule = self.plan.strike(f"submit:{op.kind}", op.target)
        fault = self._met(rule)
        if fault is Fault.LATE and rule is not None:
            self._send(op, operation_id, Fate.DONE, late_s=rule.delay_s)
            fault = Fault.HANG
        if not await self._reaches(fault, [op.target], deadline_s):
            return _unasked("no answer")
        if op.kind not in self.operations:
            return _failed(f"{op.kind}: no such operation")
        if (images := self._images(op, operation_id)) is not None:
            return images
        known = self.world.find(operation_id)
        if known is not None and Promise.DEDUPLICATES in self.promises:
            return _progress(known)
        if fault is Fault.LIE:
            return Progress(state=ProgressState.DONE, detail=f"{op.kind} done, it says")
        if op.kind == "DELETE" and not self.world.alive(op.target.node_id):
            self.world.confirm_gone(op.target.node_id, op.target.physical_id)
            return Progress(state=ProgressState.DONE, detail="there is no such copy")
        fate = {Fault.FAIL: Fate.FAILED, Fault.HALF: Fate.HALF}.get(fault or Fault.ERROR, Fate.DONE)
        job = self._send(op, operation_id, fate)
        if fault is Fault.LOSE:
            await asyncio.sleep(deadline_s * 0.9)
            return _unasked("the answer was lost")
        return _progress(job)

    async def poll(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Read from the world how far the operation is."""
        rule = self.plan.strike(f"poll:{op.kind}", op.target)
        fault = self._met(rule)
        if not await self._reaches(fault, [op.target], deadline_s) or fault is Fault.LOSE:
            return _unasked("no answer")
        job = self.world.find(operation_id)
        if job is None or op.kind == "DISCARD":
            return Progress(state=ProgressState.ABSENT, detail="no trace of that operation")
        return _progress(job)

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return a line of evidence."""
        fault = self._met(self.plan.strike("capture", target))
        if not await self._reaches(fault, [target], deadline_s):
            return ""
        return f"{target.name}: {len(self.world.copies[target.node_id])} copies so far"

    # --- what a profile may offer besides ------------------------------------------------------

    async def inspect(
        self,
        identity: str,
        *,
        overrides: Mapping[str, object],
        snapshot: bool,
        deadline_s: float,
        project: str = "",
    ) -> Inspection:
        """Look for a copy of that physical id which no node owns."""
        if await self._silent("inspect", deadline_s):
            return _inspected(InspectionState.UNKNOWN, "no answer")
        found = self.world.owner(identity)
        if found is None:
            return _inspected(InspectionState.ABSENT, f"there is no copy {identity}")
        free = found.node_id == STRAY
        image = {"image": f"snapshot of {identity}"} if snapshot else {}
        return Inspection(
            state=InspectionState.FOUND if free else InspectionState.REFUSED,
            detail="it runs" if free else f"it is node {found.node_id}'s",
            physical_id=identity,
            owner=found.node_id,
            properties={**found.spec, **image, **overrides},
            attributes={"node_ip": "192.0.2.1"},
        )

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        """Let the copy be that node's."""
        fault = self._met(self.plan.strike("adopt", target))
        if not await self._reaches(fault, [], deadline_s):
            return _inspected(InspectionState.UNKNOWN, "no answer")
        given = self.world.give(target.physical_id, target.node_id)
        if fault is Fault.LOSE:
            return _inspected(InspectionState.UNKNOWN, "the answer was lost")
        if not given:
            return _inspected(InspectionState.REFUSED, f"{target.physical_id} is not to be had")
        return Inspection(
            state=InspectionState.FOUND,
            detail="adopted",
            physical_id=target.physical_id,
            properties=target.spec,
            attributes={"node_ip": "192.0.2.1"},
        )

    async def describe(self, target: Target, *, deadline_s: float) -> Mapping[str, object]:
        """Return what the world knows of the present copy."""
        copy = self.world.present(target.node_id)
        if await self._silent("describe", deadline_s) or copy is None:
            return {}
        return {"started_s": copy.started_s, "serving": copy.serving, **copy.spec}

    async def _silent(self, call: str, deadline_s: float) -> bool:
        fault = self._met(self.plan.strike(call, None))
        return not await self._reaches(fault, [], deadline_s) or fault is Fault.LOSE

    # --- shared --------------------------------------------------------------------------------

    def _met(self, rule: Rule | None) -> Fault | None:
        # Whoever is cut off meets no fault of what it cannot reach.
        if self.world.partitioned:
            return Fault.HANG
        return rule.fault if rule is not None else None

    async def _reaches(
        self, fault: Fault | None, targets: Sequence[Target], deadline_s: float
    ) -> bool:
        """Make the way to the backend; False when no answer will come before the deadline."""
        match fault:
            case Fault.STUCK:
                await asyncio.sleep(NEVER_S)
            case Fault.HANG | Fault.LATE:
                await asyncio.sleep(deadline_s * 0.95)
                return False
            case Fault.RAISE:
                raise Broken("a driver's bug")
            case Fault.ERROR:
                raise ConnectionRefusedError("the backend's API refuses connections")
            case _:
                pass
        wanted_s = max((float(str(t.spec["answer_s"])) for t in targets), default=0.0)
        await asyncio.sleep(min(wanted_s, deadline_s * 0.95))
        return wanted_s < deadline_s

    def _images(self, op: Operation, operation_id: OperationId) -> Progress | None:
        """Return the answer where it is about an image that is being taken."""
        taking = self.world.taking(op.target.node_id)
        if op.kind == "REBUILD" and taking:
            later = "later, for an image is being taken of it"
            return Progress(state=ProgressState.RUNNING, detail=later)
        if op.kind != "DISCARD":
            return None
        for job in taking:
            if op.params.get("every") or job.operation_id == operation_id:
                job.state, job.detail = ProgressState.FAILED, "SNAPSHOT: it was given up"
        if "every" in op.params:
            return self._swept(op)
        return Progress(state=ProgressState.DONE, detail="no image of it is being taken")

    def _swept(self, op: Operation) -> Progress:
        """Delete every image of a node, or all but the newest; never one that somebody boots from."""
        every, spared = bool(op.params["every"]), op.params.get("spared")
        taken = self.world.images(op.target.node_id)[0 if every else IMAGES_KEPT :]
        for job in taken:
            kept = isinstance(spared, list) and job.image in spared
            if not kept and not self.world.built_from(job.image):
                job.image = ""
        left = [job.image for job in taken if job.image]
        state = ProgressState.FAILED if every and left else ProgressState.DONE
        return Progress(state=state, detail=f"{len(left)} images are in use")

    def _send(
        self, op: Operation, operation_id: OperationId, fate: Fate, *, late_s: float = 0.0
    ) -> Job:
        takes_s = float(str(op.target.spec[DURATIONS.get(op.kind, "reboot_s")]))
        arrives_s = self.world.clock.monotonic_s() + late_s
        job = Job(
            operation_id=operation_id,
            kind=op.kind,
            node_id=op.target.node_id,
            physical_id=op.target.physical_id,
            arrives_s=arrives_s,
            due_s=arrives_s + takes_s,
            fate=fate,
            refuse_known=self._careful,
            waived=op.waived,
            spec={**op.target.spec, **{k: v for k, v in op.params.items() if k == "image"}},
        )
        if op.kind == "CREATE" and not late_s and (older := self.world.in_the_way(job)):
            job.state = ProgressState.FAILED
            job.detail = f"CREATE refused: copy {older.physical_id} still runs"
        return self.world.add(job)


class ForeseeingProfile(ScriptedProfile):
    """As ScriptedProfile, and it can be asked beforehand: FAIL says that it could not be made."""

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        """Say what the plan has for a question: a LIE promises what the backend would refuse."""
        rule = self.plan.strike("foresee", op.target)
        fault = self._met(rule)
        if not await self._reaches(fault, [op.target], deadline_s) or fault is Fault.LOSE:
            return Prospect(outlook=Outlook.UNKNOWN, detail="the backend did not answer")
        if fault in {Fault.FAIL, Fault.HALF}:
            return Prospect(outlook=Outlook.IMPOSSIBLE, detail="image scripted is gone")
        return Prospect(outlook=Outlook.POSSIBLE, detail="")


class ForgetfulProfile(ScriptedProfile):
    """As ScriptedProfile, but an operation id that is submitted again is done again."""

    type: ClassVar[str] = "yaffle.forgetful-1.0"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.CONFIRMS_DELETE})


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _unclear(why: str) -> Reading:
    return Reading(exists=True, up=None, backend_status="unclear", detail=why)


def _unasked(detail: str) -> Progress:
    return Progress(
        state=ProgressState.RUNNING, detail=detail, hindrance=Hindrance.UNASKED, untold=True
    )


def _failed(detail: str) -> Progress:
    return Progress(state=ProgressState.FAILED, detail=detail)


def _inspected(state: InspectionState, detail: str) -> Inspection:
    return Inspection(state=state, detail=detail)


def _facts(node_id: str) -> Mapping[str, object]:
    return {"node_ip": "192.0.2.1", "host": f"host-{node_id[-1]}"}


def _progress(job: Job) -> Progress:
    attributes: Mapping[str, object] | None = None
    if job.made is not None or job.image:
        attributes = _facts(job.node_id)
    if attributes is not None and job.image:
        attributes = {**attributes, "snapshot": job.image}
    return Progress(state=job.state, detail=job.detail, physical_id=job.made, attributes=attributes)


if TYPE_CHECKING:
    _conforms: type[Profile] = ScriptedProfile
    _adopts: type[SupportsAdoption] = ScriptedProfile
    _describes: type[SupportsDescription] = ScriptedProfile
    _foresees: type[SupportsPreflight] = ForeseeingProfile
