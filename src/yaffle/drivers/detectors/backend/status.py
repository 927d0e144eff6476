"""NODE_STATUS_POLLING: asks each node's profile how the node is, many at a time.

Only the profile's word counts here. A failed reading is read again by the engine where the policy
says so (`confirm_status`), not by this detector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from yaffle.clouds.asking import Asker, Question
from yaffle.core.readings import classify, copy_of
from yaffle.errors import ConfigError
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import Profile

if TYPE_CHECKING:
    from yaffle.ports.detector import Detector


class StatusDetector:
    """One `Profile.read` for all nodes of a kind; what cannot be asked is unknown."""

    type: ClassVar[str] = "NODE_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        if context.settings:
            names = ", ".join(sorted(context.settings))
            raise ConfigError(f"detector {self.type} has no settings, but was given: {names}")
        question = Question(
            read_of=lambda profile: cast("Profile", profile).read,
            classify=classify,
            cannot="cannot be read",
            error="ST-ERROR",
            timeout="ST-TIMEOUT",
            copy_of=copy_of,
            age_us_of=lambda reading: reading.age_us,
        )
        self._asker = Asker(context, question)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        return await self._asker.check(targets, mode, deadline_s=deadline_s)


if TYPE_CHECKING:
    _conforms: type[Detector] = StatusDetector
