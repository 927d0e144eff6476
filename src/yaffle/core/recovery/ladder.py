"""The recovery ladder: which step comes next, given the steps that the journal says are done.

A rung is one action of the policy; its *path* is the tuple of stages that it walks. The table says
what each result of a stage leads to: on along the path, to the next rung, or to an end. Position is
never stored: it is replayed from the journal, so that a successor knows exactly as much as the
engine that died.

    LOOK ─unhealthy─▶ [EVIDENCE, SNAPSHOT, LOOK] ─▶ [FENCE ─proved─▶] [DELETE ─proved─▶] CREATE | ACT
      └─healthy─▶ already-healthy                CREATE | ACT ─done─▶ VERIFY ─passed─▶ recovered

The safety rule of the whole system is in two places here and nowhere else: `path_of` and `one_rung`
put FENCE or DELETE before every stage that could start a second copy, and `TABLE` lets only PROVED,
WAIVED (the operator's recorded consent) or LEFT_BEHIND (proved already, the remains are swept
later) past them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from yaffle.model.policy import RungKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.model.policy import Recovery, RecoveryAction


class Stage(StrEnum):
    """The kinds of step."""

    LOOK = "look"
    """Look again, under the lock: is it still unhealthy?"""
    EVIDENCE = "evidence"
    SNAPSHOT = "snapshot"
    """Take an image of the failed copy's disk, before the rung that gives the disk up."""
    FENCE = "fence"
    DELETE = "delete"
    CREATE = "create"
    ACT = "act"
    """An in-place operation of the profile, or a workflow."""
    VERIFY = "verify"


class Result(StrEnum):
    """The results of a step."""

    SICK = "sick"
    HEALTHY = "healthy"
    UNCLEAR = "unclear"
    """No answer, or that it is to be left alone: no licence to act, now or by the next rung."""
    DONE = "done"
    FAILED = "failed"
    PROVED = "proved"
    UNPROVED = "unproved"
    WAIVED = "waived"
    """No proof, but the policy says node_force_recreate: recorded as the operator's consent."""
    LEFT_BEHIND = "left-behind"
    """The fence was proved, only the remains could not be removed yet."""
    PASSED = "passed"
    SUPERSEDED = "superseded"
    """A user's action took the node over: stop at the step boundary."""
    HALTED = "halted"
    """An operator stopped healing, or began maintenance, while the ladder was walked."""


class End(StrEnum):
    """The ends of a ladder."""

    RECOVERED = "recovered"
    DONE = "done"
    """The path is over and nothing was to be verified: creating and deleting end so."""
    ALREADY_HEALTHY = "already-healthy"
    EXHAUSTED = "exhausted"
    ABANDONED = "abandoned"
    SUPERSEDED = "superseded"


class Onward(StrEnum):
    """Next place after a result that does not end the ladder."""

    NEXT_STAGE = "next-stage"
    NEXT_RUNG = "next-rung"


Move = Onward | End

_S, _R = Stage, Result

TABLE: Final[Mapping[tuple[Stage, Result], Move]] = {
    (_S.LOOK, _R.SICK): Onward.NEXT_STAGE,
    (_S.LOOK, _R.HEALTHY): End.ALREADY_HEALTHY,
    (_S.LOOK, _R.UNCLEAR): End.ABANDONED,
    # Evidence is worth its time box and no more: without it we go on.
    (_S.EVIDENCE, _R.DONE): Onward.NEXT_STAGE,
    (_S.EVIDENCE, _R.FAILED): Onward.NEXT_STAGE,
    # So is a snapshot: where it was refused, or is late, the profile's own image is booted.
    (_S.SNAPSHOT, _R.DONE): Onward.NEXT_STAGE,
    (_S.SNAPSHOT, _R.FAILED): Onward.NEXT_STAGE,
    (_S.FENCE, _R.PROVED): Onward.NEXT_STAGE,
    (_S.FENCE, _R.WAIVED): Onward.NEXT_STAGE,
    (_S.FENCE, _R.UNPROVED): Onward.NEXT_RUNG,
    # That nobody could be asked, or that somebody keeps it from being touched, is no failure of the
    # rung: the next one would be a stronger act for no better reason.
    **{
        (s, _R.UNCLEAR): End.ABANDONED
        for s in (_S.SNAPSHOT, _S.FENCE, _S.DELETE, _S.CREATE, _S.ACT)
    },
    (_S.DELETE, _R.PROVED): Onward.NEXT_STAGE,
    (_S.DELETE, _R.WAIVED): Onward.NEXT_STAGE,
    (_S.DELETE, _R.LEFT_BEHIND): Onward.NEXT_STAGE,
    (_S.DELETE, _R.UNPROVED): Onward.NEXT_RUNG,
    (_S.CREATE, _R.DONE): Onward.NEXT_STAGE,
    (_S.CREATE, _R.FAILED): Onward.NEXT_RUNG,
    (_S.ACT, _R.DONE): Onward.NEXT_STAGE,
    (_S.ACT, _R.FAILED): Onward.NEXT_RUNG,
    (_S.VERIFY, _R.PASSED): End.RECOVERED,
    (_S.VERIFY, _R.FAILED): Onward.NEXT_RUNG,
    # Whoever cannot see does not know whether it helped: a stronger act would be a guess.
    (_S.VERIFY, _R.UNCLEAR): End.ABANDONED,
    **{(stage, _R.SUPERSEDED): End.SUPERSEDED for stage in Stage},
    # Looking whether it helped touches nothing, so VERIFY is never halted.
    **{(stage, _R.HALTED): End.ABANDONED for stage in Stage if stage is not Stage.VERIFY},
}

DANGEROUS: Final = frozenset({Stage.CREATE})
"""Stages that start a copy; ACT is one too when its action is not in place."""
HARMLESS: Final = frozenset({Stage.LOOK, Stage.EVIDENCE, Stage.SNAPSHOT})
"""Stages after which a target is as it was."""
DISK_LOST: Final = frozenset({"REBUILD", "RECREATE"})
"""Operations that give up the disk, and can boot a new one from a snapshot (seed 2, design/policies)."""


class IllegalStep(ValueError):
    """The journal holds a result that its stage cannot have: a bug or a damaged journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One action with the stages that it goes through."""

    action: RecoveryAction
    path: tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One finished step of the journal."""

    rung: int
    stage: Stage
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The step to take now."""

    rung: int
    stage: Stage
    acted: bool
    """Whether an earlier step may have changed the target."""
    completed: bool
    """Whether an act of an earlier rung came to its end; one that failed has answered nothing."""
    proved: bool
    """Whether this rung holds a proof, or a waiver, that the old copy cannot act."""


def path_of(
    action: RecoveryAction, recovery: Recovery, *, first: bool, keeps: bool = False
) -> tuple[Stage, ...]:
    """Return the stages of one rung; evidence is taken once, before anything is touched.

    What takes its time before the act makes the look an old one: it is looked at again. `keeps`: it is
    the first rung that gives up the disk, so that a snapshot is taken before.
    """
    wanted = recovery.evidence is not None and recovery.evidence.console_log
    before = (Stage.EVIDENCE,) * (first and wanted) + (Stage.SNAPSHOT,) * keeps
    opening = (Stage.LOOK, *before, Stage.LOOK) if before else (Stage.LOOK,)
    if action.kind is RungKind.BUILTIN and action.name == "RECREATE":
        fence = (Stage.FENCE,) if recovery.fencing else ()
        return (*opening, *fence, Stage.DELETE, Stage.CREATE, Stage.VERIFY)
    if action.in_place:
        return (*opening, Stage.ACT, Stage.VERIFY)
    return (*opening, Stage.FENCE, Stage.ACT, Stage.VERIFY)


class NodeActionKind(StrEnum):
    """The kinds of action on a node besides recovery; each has one rung."""

    MAKE = "make"
    """The first copy: there is none that it could double, and CREATE refuses where there is one."""
    REMOVE = "remove"
    CHECK = "check"
    REPLACE = "replace"
    """The copy that is there is given up for one with other properties."""
    OPERATE = "operate"


_STAGES_OF: Final[Mapping[NodeActionKind, tuple[Stage, ...]]] = {
    NodeActionKind.MAKE: (Stage.CREATE,),
    NodeActionKind.REMOVE: (Stage.DELETE,),
    NodeActionKind.CHECK: (Stage.LOOK,),
    NodeActionKind.REPLACE: (Stage.DELETE, Stage.CREATE),
    NodeActionKind.OPERATE: (Stage.FENCE, Stage.ACT),
}


def one_rung(kind: NodeActionKind, action: RecoveryAction) -> tuple[Rung, ...]:
    """Return the ladder of another action than a recovery: one rung, nothing looked at or verified."""
    harmless = kind is NodeActionKind.OPERATE and action.in_place
    return (Rung(action=action, path=(Stage.ACT,) if harmless else _STAGES_OF[kind]),)


def build(recovery: Recovery) -> tuple[Rung, ...]:
    """Return the ladder of a policy."""
    keeping = _keeping(recovery)
    return tuple(
        Rung(
            action=action,
            path=path_of(action, recovery, first=index == 0, keeps=index == keeping),
        )
        for index, action in enumerate(recovery.actions)
    )


def helpless(actions: Sequence[RecoveryAction]) -> tuple[str, ...]:
    """Return the names of the rungs that cannot help a copy that is gone: those that keep it.

    None where there is no other rung: a policy that names nothing else is taken at its word.
    """
    keeping = tuple(a.name for a in actions if a.in_place and a.kind is RungKind.BUILTIN)
    return keeping if len(keeping) < len(actions) else ()


def without(
    actions: tuple[RecoveryAction, ...], left_out: Collection[str]
) -> tuple[RecoveryAction, ...]:
    """Return the actions without those left out, in order; all of them where none would remain."""
    return tuple(a for a in actions if a.name not in left_out) or actions


def loses_disk(action: RecoveryAction) -> bool:
    """Whether a rung gives up the disk of the copy that failed."""
    return action.kind is RungKind.BUILTIN and action.name in DISK_LOST


def _keeping(recovery: Recovery) -> int | None:
    """Return the place of the rung before which a snapshot is taken: once, while there is a disk."""
    if recovery.snapshot is None or not recovery.snapshot.take:
        return None
    return next((i for i, action in enumerate(recovery.actions) if loses_disk(action)), None)


def _is_next(ladder: tuple[Rung, ...], rung: int, stage: int, step: Done) -> bool:
    if rung >= len(ladder) or stage >= len(ladder[rung].path):
        return False
    return (step.rung, step.stage) == (rung, ladder[rung].path[stage])


def position(ladder: tuple[Rung, ...], journal: Sequence[Done]) -> Next | End:
    """Replay the journal and return the step to take now, or the end of the ladder."""
    rung = stage = 0
    acted = proved = completed = False
    for step in journal:
        if not _is_next(ladder, rung, stage, step):
            raise IllegalStep(f"the journal holds {step}, which does not come next")
        if step.result is Result.LEFT_BEHIND and not proved:
            raise IllegalStep(f"rung {rung} left a copy behind that no fence has proved dead")
        move = TABLE.get((step.stage, step.result))
        match move:
            case None:
                raise IllegalStep(f"{step.stage} cannot come to {step.result}")
            case Onward.NEXT_STAGE:
                stage += 1
                completed = completed or step.stage in {Stage.CREATE, Stage.ACT}
                proved = proved or step.stage in {Stage.FENCE, Stage.DELETE}
                acted = acted or step.stage not in HARMLESS
            case Onward.NEXT_RUNG:
                rung, stage, proved, acted = rung + 1, 0, False, True
            case End.ALREADY_HEALTHY if acted:
                # What an earlier rung did has worked after all, only late.
                return End.RECOVERED
            case _:
                return move
    if rung >= len(ladder):
        return End.EXHAUSTED
    if stage >= len(ladder[rung].path):
        return End.DONE
    return Next(
        rung=rung, stage=ladder[rung].path[stage], acted=acted, completed=completed, proved=proved
    )
