"""Replays a decision from its stored record, and says where the two differ.

The same functions decide as the first time (`conclude`, `decide`, `debit`), so that agreement means:
what was stored is what was used, it suffices, and nothing else had a hand in it. Two things are
judged by rules of their own, because the functions take them for granted: that a belief of "down"
rests on as many failures in a row as it took then, and that the node was one to decide upon.

A row without a record (from before there were any), or one of other rules, is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from yaffle.core.decision_audit.restore import again, detection_of, memory_of, view_of
from yaffle.core.decision_audit.schema import (
    ANSWERING,
    PAUSES_MAX,
    RECORD,
    VERSION,
    Heard,
    Record,
    Stored,
    Unreadable,
    unpack,
)
from yaffle.core.health import diagnosis
from yaffle.core.health.verdict import Belief, conclude
from yaffle.core.planning.budgets import Scope
from yaffle.core.planning.cluster_view import ClusterView
from yaffle.core.planning.guards import threshold_of
from yaffle.core.planning.host_attribution import BY_HOST, may_count_as_one
from yaffle.core.planning.planner import candidates
from yaffle.model.health import Outcome
from yaffle.model.incident import Decision, Hold, HoldReason, Recover
from yaffle.model.policy import RecoveryMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The row follows from what it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The first place where it does not."""

    field: str
    stored: object
    recomputed: object

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.field} is stored as {self.stored!r} and comes to {self.recomputed!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRecheckable:
    """Verdict where nothing can be said: neither that it is right nor that it is wrong."""

    why: str


Verdict = Agreement | Disagreement | NotRecheckable


def recheck(stored: Stored) -> Verdict:
    """Judge one stored decision."""
    values = stored.inputs.get(RECORD)
    if values is None:
        return NotRecheckable(why="it was stored without what it rests on, by an older version")
    if not _ours(version := _of(values, "v"), on_host=_of(values, "host") is not None):
        return NotRecheckable(why=f"it was made by other rules (record {version})")
    try:
        record = unpack(values)
    except Unreadable as error:
        return Disagreement(field=RECORD, stored=str(error), recomputed="a record that can be read")
    differences = chain(_written(stored, record), _believed(record), _decided(stored, record))
    return next(differences, Agreement())


def _of(values: object, name: str) -> object:
    return values.get(name) if isinstance(values, Mapping) else None


def _ours(version: object, *, on_host: bool) -> bool:
    """Whether a record was made by the rules that stand here; one without a version is no record."""
    if not isinstance(version, int):
        return True
    return version <= VERSION and (version >= ANSWERING or not on_host)


def replayed(stored: Stored, mode: RecoveryMode) -> Decision | None:
    """Return what would have been decided in that mode; None where nothing can be said."""
    try:
        record = unpack(stored.inputs.get(RECORD))
    except Unreadable:
        return None
    record = replace(record, healing=replace(record.healing, mode=mode))
    return again(stored, record)


# --- what was written down ----------------------------------------------------------------------


def _written(stored: Stored, record: Record) -> Iterator[Disagreement]:
    """The columns repeat some of the record: they have to say the same."""
    yield from _differing(
        ("at_us", stored.at_us, record.now_us),
        ("policy_id", stored.policy_id, record.policy_id),
        ("policy_version", stored.policy_version, record.policy_version),
    )
    for kind, count in record.more_pauses.items():
        if sum(p.kind is kind for p in record.pauses) != PAUSES_MAX:
            yield Disagreement(field=f"{RECORD}.more_pauses.{kind}", stored=count, recomputed=0)
    yield from _as_one(record)
    yield from _helpless(record)


def _helpless(record: Record) -> Iterator[Disagreement]:
    """Rungs of the policy are left out of a ladder for one reason: the backend knows no such copy."""
    gone = diagnosis.is_gone(memory_of(record.believed))
    allowed = [name for name in record.healing.actions if gone and name in record.left_out]
    if list(record.left_out) != allowed:
        yield Disagreement(
            field=f"{RECORD}.left_out", stored=list(record.left_out), recomputed=allowed
        )


def _as_one(record: Record) -> Iterator[Disagreement]:
    """Lost hosts count as one failure each only while others are left, and few are lost."""
    named = {kind.host for kind in record.nodes if kind.host}
    limits = record.healing.limits
    allowed = threshold_of(limits.max_unhealthy, record.hosts)
    may = limits.domain != BY_HOST and may_count_as_one(len(named), record.hosts, allowed)
    if named and not may:
        yield Disagreement(field=f"{RECORD}.nodes", stored=sorted(named), recomputed=[])


def _differing(*compared: tuple[str, object, object]) -> Iterator[Disagreement]:
    for field, was, comes in compared:
        if plain(was) != plain(comes):
            yield Disagreement(field=field, stored=was, recomputed=comes)


def plain(value: object) -> object:
    """Return a value as JSON would give it back."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


# --- the verdict ----------------------------------------------------------------------------------


def _believed(record: Record) -> Iterator[Disagreement]:
    was = memory_of(record.believed)
    compared = ["health", "settled", "gray", "grace_us", "unheard_us"]
    if record.v < ANSWERING:
        compared.remove("gray")
    comes = conclude(was, detection_of(record), record.now_us)
    yield from _differing(
        *(
            (f"{RECORD}.believed.{name}", getattr(was, name), getattr(comes, name))
            for name in compared
        ),
        (f"{RECORD}.believed.heard", dict(was.tracks), dict(comes.tracks)),
    )
    for heard in record.believed.heard:
        yield from _run(heard)


def _run(heard: Heard) -> Iterator[Disagreement]:
    """A mode is down only after as many failures in a row as it took when it fell."""
    down = heard.belief is Belief.DOWN
    if down is not (heard.fell > 0):
        yield Disagreement(
            field=f"{RECORD}.believed.heard.{heard.mode}.belief",
            stored=heard.belief.value,
            recomputed=f"fell after {heard.fell} failures",
        )
    last = heard.last
    failing = last is not None and last.outcome is Outcome.FAIL
    if down and failing and heard.fails < heard.fell:
        yield Disagreement(
            field=f"{RECORD}.believed.heard.{heard.mode}.fails",
            stored=heard.fails,
            recomputed=f"at least {heard.fell}",
        )


# --- the decision ---------------------------------------------------------------------------------


def _decided(stored: Stored, record: Record) -> Iterator[Disagreement]:
    memory = memory_of(record.believed)
    view = view_of(stored, record)
    if not candidates(view):
        yield Disagreement(field="kind", stored=stored.kind, recomputed="nothing to decide")
    comes = again(stored, record)
    yield from _asked(stored, record, comes)
    reason = comes.reason.value if isinstance(comes, Hold) else None
    inputs = stored.inputs
    yield from _differing(
        ("kind", stored.kind, "hold" if isinstance(comes, Hold) else "recover"),
        ("reason", stored.reason, reason),
        *_numbers(stored.numbers, comes.numbers),
        ("until_us", stored.until_us, comes.until_us if isinstance(comes, Hold) else None),
        ("inputs.health", inputs.get("health"), memory.health.value),
        ("inputs.settled", inputs.get("settled"), memory.settled),
        ("inputs.problem", inputs.get("problem"), diagnosis.explain(memory)),
        ("inputs.ladder", inputs.get("ladder"), _ladder(view, comes)),
    )
    if isinstance(comes, Recover):
        yield from _differing(
            ("inputs.cause", inputs.get("cause"), comes.cause),
            ("inputs.overrode", inputs.get("overrode"), [r.value for r in comes.overrode]),
        )


def _ladder(view: ClusterView, comes: Decision) -> list[str]:
    rungs = comes.ladder if isinstance(comes, Recover) else view.recovery.actions
    return [rung.name for rung in rungs]


def _asked(stored: Stored, record: Record, comes: Decision) -> Iterator[Disagreement]:
    """Where the guards let a node through, the budgets were asked: its cluster's and everybody's."""
    through = isinstance(comes, Recover) or comes.reason is HoldReason.OBSERVE_MODE
    asked = {p.scope: p.key for p in record.purses}
    complete = asked.get(Scope.CLUSTER) == stored.cluster_id and Scope.GLOBAL in asked
    if (through or asked) and not complete:
        yield Disagreement(
            field=f"{RECORD}.purses",
            stored=sorted(asked),
            recomputed="its cluster's and the global one among them",
        )


def _numbers(
    stored: Mapping[str, object], comes: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in sorted(stored.keys() | comes.keys()):
        yield f"numbers.{name}", stored.get(name), comes.get(name)
