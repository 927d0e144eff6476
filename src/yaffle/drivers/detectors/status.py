"""NODE_STATUS_POLLING: asks each node's profile how the node is, many at a time.

Only the profile's word counts here. A failed reading is read again by the engine where the policy
says so (`confirm_status`), not by this detector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.core.outcomes import OUTCOMES, judge
from yaffle.errors import ConfigError, DependencyError
from yaffle.model.health import Observation
from yaffle.model.operations import Reading, Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import Profile

if TYPE_CHECKING:
    from yaffle.ports.detector import Detector

log = structlog.get_logger(__name__)

_BATCH: Final = 500
"""Targets in one call of a profile: a cloud answers a thousand in one list, a disk does not."""
_CALLS: Final = 8
"""Calls under way at once."""
_DETAIL_MAX: Final = 300
_FROZEN: Final = ("frozen", "paused", "suspended")

Seen = tuple[str, str, str]
"""Code of `core.outcomes`, detail, the backend's own word."""


class StatusDetector:
    """One `Profile.read` for all nodes of a kind; what cannot be asked is unknown."""

    type: ClassVar[str] = "NODE_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        if context.settings:
            names = ", ".join(sorted(context.settings))
            raise ConfigError(f"detector {self.type} has no settings, but was given: {names}")
        self._clock = context.clock
        self._profiles = context.profiles

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        found: dict[int, Observation] = {}
        turns = asyncio.Semaphore(_CALLS)
        until_s = self._clock.monotonic_s() + deadline_s

        async def ask(places: Sequence[int]) -> None:
            batch = [targets[place] for place in places]
            started_s = self._clock.monotonic_s()
            seen = await self._ask(batch, turns, until_s)
            at_us = self._clock.now_us()
            took_us = round((self._clock.monotonic_s() - started_s) * 1_000_000)
            for place, one in zip(places, seen, strict=True):
                found[place] = _observation(targets[place], mode, one, at_us, took_us)

        async with asyncio.TaskGroup() as tasks:
            for places in _batches(targets):
                tasks.create_task(ask(places))
        return [found[place] for place in range(len(targets))]

    async def _ask(
        self, batch: Sequence[Target], turns: asyncio.Semaphore, until_s: float
    ) -> Sequence[Seen]:
        """Ask for one batch; all of it fares alike when the call itself fails."""
        profile = self._profiles.get(batch[0].profile_type)
        if profile is None:
            return [_same("ST-ERROR", f"no driver for profile {batch[0].profile_type}")] * len(
                batch
            )
        try:
            async with asyncio.timeout(max(0.0, until_s - self._clock.monotonic_s())), turns:
                return await self._read(profile, batch, until_s)
        except TimeoutError:
            return [_same("ST-TIMEOUT", f"no answer of {profile.type} in time")] * len(batch)
        except (OSError, DependencyError) as error:
            return [_same("ST-ERROR", f"{profile.type}: {error}")] * len(batch)
        except Exception as error:
            # The one place for it: a third party's driver must not end the watch.
            log.exception("profile failed to read", profile=profile.type, targets=len(batch))
            return [_same("X-BUG", f"{profile.type}: {type(error).__name__}")] * len(batch)

    async def _read(
        self, profile: Profile, batch: Sequence[Target], until_s: float
    ) -> Sequence[Seen]:
        left_s = max(0.01, until_s - self._clock.monotonic_s())
        readings = await profile.read(batch, deadline_s=left_s)
        if len(readings) != len(batch):
            # Which answer belongs to which node cannot be known any more.
            log.error(
                "profile miscounted", profile=profile.type, asked=len(batch), got=len(readings)
            )
            text = f"{profile.type} gave {len(readings)} answers for {len(batch)} nodes"
            return [_same("X-BUG", text)] * len(batch)
        return [classify(reading) for reading in readings]


def classify(reading: Reading) -> Seen:
    """Return the row that a reading means."""
    word = reading.backend_status
    if reading.up is None:
        code = "ST-UNCLEAR"
    elif reading.up:
        code = "ST-UP"
    elif not reading.exists:
        code = "ST-GONE"
    elif any(frozen in word.lower() for frozen in _FROZEN):
        code = "ST-FROZEN"
    else:
        code = "ST-DOWN"
    return code, f"{word}: {reading.detail}" if reading.detail else word, word


def _batches(targets: Sequence[Target]) -> Iterator[Sequence[int]]:
    """Yield the places of targets of one profile type, in bounded batches."""
    places: dict[str, list[int]] = {}
    for place, target in enumerate(targets):
        places.setdefault(target.profile_type, []).append(place)
    for group in places.values():
        for first in range(0, len(group), _BATCH):
            yield group[first : first + _BATCH]


def _same(code: str, detail: str) -> Seen:
    return code, detail, ""


def _observation(
    target: Target, mode: DetectionMode, seen: Seen, at_us: int, took_us: int
) -> Observation:
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
    )


if TYPE_CHECKING:
    _conforms: type[Detector] = StatusDetector
