"""Asks profiles about many nodes at once, and turns every way to get no answer into one of ours.

What a profile says means something else to each detector; that a call failed, was late or was
miscounted means the same to all of them: unknown, for the whole batch. It stands here because
several detectors ask so, and no driver imports another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import structlog

from yaffle.core.health.backend_status_codes import Seen
from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.errors import DependencyError
from yaffle.model.health import Hint, Observation, OtherCopy
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import SupportsPooledReads

log = structlog.get_logger(__name__)

BATCH: Final = 1000
"""Targets in one call of a profile: what a cloud answers in one list."""
GATHER_S: Final = 0.05
"""So long a question waits for other clusters that ask the same in this moment, and share its answer."""
_CALLS: Final = 8
"""Calls under way at once."""
_DETAIL_MAX: Final = 300

AnswerT = TypeVar("AnswerT")
_Told_co = TypeVar("_Told_co", covariant=True)
_Told = tuple[Seen, AnswerT | None, int]
"""What an answer means, the answer, and how old it was when it was asked for, in µs."""


_Key = tuple[str, str, float]
"""Profile type, pool and deadline (s)."""


class Read(Protocol[_Told_co]):
    """The one call of a profile that a detector is about."""

    async def __call__(
        self, targets: Sequence[Target], *, deadline_s: float
    ) -> Sequence[_Told_co]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[AnswerT]):
    """A question: what is asked, how an answer is read, and the rows for what went wrong."""

    read_of: Callable[[object], Read[AnswerT] | None]
    """The call to make of a profile; None where it has none."""
    classify: Callable[[AnswerT], Seen]
    cannot: str
    """Why a profile without that call cannot be asked: follows its name."""
    error: str
    timeout: str
    copy_of: Callable[[Target, AnswerT], OtherCopy | None] = lambda _target, _answer: None
    """The copy that an answer is about, where it is another than the one that was asked for."""
    age_us_of: Callable[[AnswerT], int] = lambda _answer: 0
    """How long before we asked an answer was asked for, by somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[AnswerT]):
    """The outcome for one target; `answer` is None where the profile gave none."""

    seen: Seen
    at_us: int
    took_us: int
    """Since the answer was asked for: by us, or by who asked in our place before."""
    answer: AnswerT | None = None


class _Nonsense(Exception):
    """An answer of which nobody knows what it is about."""


@dataclass(slots=True, eq=False)
class _Shared(Generic[AnswerT]):
    """A call that several callers share; made by the first of them."""

    over: asyncio.Event
    targets: list[Target] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    """The place of each target among those of its asker: where a call cuts short, all get a share."""
    told: dict[int, _Told[AnswerT]] | Exception | None = None
    """By place; None: that call came to nothing for a reason that is not the backend's."""

    def join(self, batch: Sequence[Target]) -> range:
        """Add targets; return their places."""
        places = range(len(self.targets), len(self.targets) + len(batch))
        self.targets += batch
        self.ranks += range(len(batch))
        return places

    def answers(self, places: range) -> list[_Told[AnswerT]] | None:
        """Return what was told of those; raises what the call has raised."""
        if isinstance(self.told, Exception):
            raise self.told
        return None if self.told is None else [self.told[place] for place in places]


class BatchReader(Generic[AnswerT]):
    """Reader of up to `BATCH` nodes of a kind by one call of their profile; a slow kind delays no other.

    Where nodes are in one pool (`ports.SupportsPooledReads`), clusters that ask at the same time ask
    in one call. Who asks about one node is about to act upon it, and asks alone.
    """

    def __init__(self, context: DriverContext, question: Question[AnswerT]) -> None:
        self._clock = context.clock
        self._profiles = context.profiles
        self._question = question
        self._gathering: dict[_Key, _Shared[AnswerT]] = {}

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        asked = await self.ask(targets, deadline_s=deadline_s)
        return [
            observation(
                target,
                mode,
                one.seen,
                at_us=one.at_us,
                took_us=one.took_us,
                copy=None if one.answer is None else self._question.copy_of(target, one.answer),
            )
            for target, one in zip(targets, asked, strict=True)
        ]

    async def ask(
        self, targets: Sequence[Target], *, deadline_s: float
    ) -> Sequence[Asked[AnswerT]]:
        """Return what each target came to, in order."""
        found: dict[int, Asked[AnswerT]] = {}
        turns = asyncio.Semaphore(_CALLS)
        until_s = self._clock.monotonic_s() + deadline_s

        async def ask(places: Sequence[int]) -> None:
            batch = [targets[place] for place in places]
            started_s = self._clock.monotonic_s()
            seen = await self._ask(batch, turns, until_s, deadline_s)
            at_us = self._clock.now_us()
            took_us = round((self._clock.monotonic_s() - started_s) * 1_000_000)
            for place, (row, answer, age_us) in zip(places, seen, strict=True):
                found[place] = Asked(seen=row, at_us=at_us, took_us=took_us + age_us, answer=answer)

        async with asyncio.TaskGroup() as tasks:
            for places in _batches(targets):
                tasks.create_task(ask(places))
        return [found[place] for place in range(len(targets))]

    async def _ask(
        self,
        batch: Sequence[Target],
        turns: asyncio.Semaphore,
        until_s: float,
        deadline_s: float,
    ) -> Sequence[_Told[AnswerT]]:
        """Ask for one batch; all of it fares alike when the call itself fails."""
        question, kind = self._question, batch[0].profile_type
        profile = self._profiles.get(kind)
        if profile is None:
            return _all(batch, question.error, f"no driver for profile {kind}")
        read = question.read_of(profile)
        if read is None:
            return _all(batch, question.error, f"{kind} {question.cannot}")
        try:
            pool = pool_of(profile, batch) if len(batch) > 1 else None
            async with asyncio.timeout(max(0.0, until_s - self._clock.monotonic_s())), turns:
                if pool is not None:
                    key = kind, pool, deadline_s
                    return await self._together(read, batch, until_s, key)
                return await self._read(read, batch, until_s)
        except TimeoutError:
            return _all(batch, question.timeout, f"no answer of {kind} in time")
        except (OSError, DependencyError) as error:
            return _all(batch, question.error, f"{kind}: {error}")
        except _Nonsense as error:
            return _all(batch, "X-BUG", str(error))
        except Exception as error:
            # The one place for it: a third party's driver must not end the watch.
            log.exception("profile failed to read", profile=kind, targets=len(batch))
            return _all(batch, "X-BUG", f"{kind}: {type(error).__name__}")

    async def _together(
        self, read: Read[AnswerT], batch: Sequence[Target], until_s: float, key: _Key
    ) -> Sequence[_Told[AnswerT]]:
        """Ask together with all who ask about that pool in this moment and have as much time."""
        shared = self._gathering.get(key)
        first = shared is None or len(shared.targets) + len(batch) > BATCH
        if shared is None or first:
            shared = self._gathering[key] = _Shared(over=asyncio.Event())
        places = shared.join(batch)
        if first:
            await self._made(read, shared, key, until_s)
        else:
            await shared.over.wait()
        if (answers := shared.answers(places)) is not None:
            return answers
        if until_s - self._clock.monotonic_s() < key[2] / 2:
            raise TimeoutError
        # Its asker went away, or one cluster's nodes were too much for the driver: not for the others.
        return await self._read(read, batch, until_s)

    async def _made(
        self,
        read: Read[AnswerT],
        shared: _Shared[AnswerT],
        key: _Key,
        until_s: float,
    ) -> None:
        try:
            await self._clock.sleep(GATHER_S)
            # Whoever asks from now on wants an answer that is asked for after that.
            self._closed(key, shared)
            order = sorted(range(len(shared.targets)), key=shared.ranks.__getitem__)
            told = await self._read(read, [shared.targets[place] for place in order], until_s)
            shared.told = dict(zip(order, told, strict=True))
        except (OSError, DependencyError) as error:
            shared.told = error
        except Exception:
            log.exception("profile failed to read", profile=key[0], targets=len(shared.targets))
        finally:
            self._closed(key, shared)
            shared.over.set()

    def _closed(self, key: _Key, shared: _Shared[AnswerT]) -> None:
        if self._gathering.get(key) is shared:
            del self._gathering[key]

    async def _read(
        self, read: Read[AnswerT], batch: Sequence[Target], until_s: float
    ) -> Sequence[_Told[AnswerT]]:
        left_s = max(0.01, until_s - self._clock.monotonic_s())
        answers = await read(batch, deadline_s=left_s)
        if len(answers) != len(batch):
            # Which answer belongs to which node cannot be known any more.
            kind = batch[0].profile_type
            log.error("profile miscounted", profile=kind, asked=len(batch), got=len(answers))
            raise _Nonsense(f"{kind} gave {len(answers)} answers for {len(batch)} nodes")
        question = self._question
        return [(question.classify(a), a, max(0, int(question.age_us_of(a)))) for a in answers]


def pool_of(profile: object, targets: Sequence[Target]) -> str | None:
    """Return the pool that all of these nodes are in; None where there is none, or several."""
    if not isinstance(profile, SupportsPooledReads):
        return None
    try:
        pools = {str(profile.pool(target)) for target in targets}
    except Exception:
        # A stranger's driver: who is in no pool is asked about alone, as ever.
        log.exception("profile failed to name a pool")
        return None
    return pools.pop() if len(pools) == 1 else None


def _batches(targets: Sequence[Target]) -> Iterator[Sequence[int]]:
    """Yield the places of targets of one profile type, in bounded batches."""
    places: dict[str, list[int]] = {}
    for place, target in enumerate(targets):
        places.setdefault(target.profile_type, []).append(place)
    for group in places.values():
        for first in range(0, len(group), BATCH):
            yield group[first : first + BATCH]


def _all(batch: Sequence[Target], code: str, detail: str) -> Sequence[tuple[Seen, None, int]]:
    return [((code, detail, ""), None, 0)] * len(batch)


def observation(
    target: Target,
    mode: DetectionMode,
    seen: Seen,
    *,
    at_us: int,
    took_us: int = 0,
    authoritative: bool = False,
    hint: Hint | None = None,
    copy: OtherCopy | None = None,
) -> Observation:
    """Return a row of the outcome table as an observation of `target`; the detail is cut short."""
    code, detail, word = seen
    return Observation(
        node_id=target.node_id,
        mode=mode.key,
        outcome=judge(code),
        code=code,
        detail=" ".join(detail.split())[:_DETAIL_MAX],
        at_us=at_us,
        took_us=took_us,
        answered=OUTCOMES[code].answered,
        backend_status=word,
        authoritative=authoritative,
        hint=hint,
        copy=copy,
    )
