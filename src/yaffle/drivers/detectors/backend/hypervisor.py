"""HYPERVISOR_STATUS_POLLING: asks each node's profile how the machine under the node is.

Down counts, and a machine that the backend does not know any more; one that is merely closed to new
nodes does not (Senlin replaced every node of a host that an operator had disabled for maintenance:
contracts/health-policy#defects).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from yaffle.core.health.backend_status_codes import Seen
from yaffle.integrations.batch_read import BatchReader, Question
from yaffle.integrations.driver_settings import Section
from yaffle.model.health import Observation
from yaffle.model.operations import HostReading, Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import SupportsHostStatus

if TYPE_CHECKING:
    from yaffle.ports.detector import Detector


class HypervisorDetector:
    """Detector that asks a backend for the hosts of nodes; what cannot be asked is unknown."""

    type: ClassVar[str] = "HYPERVISOR_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        Section(f"drivers.{self.type}", context.settings).finish()
        question = Question(
            read_of=lambda profile: (
                profile.hosts if isinstance(profile, SupportsHostStatus) else None
            ),
            classify=classify,
            cannot="has no hosts that could be asked for",
            error="HV-ERROR",
            timeout="HV-TIMEOUT",
        )
        self._asker = BatchReader(context, question)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        return await self._asker.check(targets, mode, deadline_s=deadline_s)


def classify(host: HostReading) -> Seen:
    """Return the row that a host's state means."""
    if host.up is None:
        code = "HV-UNCLEAR"
    elif host.up:
        code = "HV-UP"
    elif not host.exists:
        code = "HV-GONE"
    else:
        code = "HV-DOWN"
    name = f"host {host.name}" if host.name else "its host"
    return code, f"{name}: {host.detail}" if host.detail else name, ""


if TYPE_CHECKING:
    _conforms: type[Detector] = HypervisorDetector
