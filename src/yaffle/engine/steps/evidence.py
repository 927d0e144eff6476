"""Evidence from earlier steps: the last check, proofs of host fences, waived proofs.

All are read from what is written down, so that a successor goes by the same: look and proof from the
journal of this very rung, the waivers of a node from where proofs are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.ladder import Result, Stage
from yaffle.engine.steps.step import StepExecution
from yaffle.model.operations import PoweredOff, Promise
from yaffle.store import journal

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.recovery.ladder import Next
    from yaffle.model.operations import FenceResult
    from yaffle.ports import Fencer
    from yaffle.store.rows import StepRow

POWER: Final = "power"
"""In the journal of a proved fence: a host was read back as off."""
HOST: Final = "host"
REPORTED: Final = "reported"
OFF_SINCE: Final = "off_since_s"
BY_WORD: Final = "by_word"
HOST_LOST: Final = "host_lost"
"""In the journal of a look: the backend had lost the machine under the node."""


def on_lost_host(past: Sequence[StepRow], place: Next) -> bool:
    """Whether the last look of a rung saw the machine under the node lost; nothing is proved since."""
    seen = [s for s in past if s.rung == place.rung and s.stage == Stage.LOOK]
    return bool(seen) and seen[-1].data.get(HOST_LOST) is True and not place.proved


def noted(fencer: Fencer, done: FenceResult) -> Mapping[str, object]:
    """Return what the journal keeps of a proved fence: which host is off, if one is."""
    if Promise.CONFIRMS_POWER not in fencer.promises:
        return {}
    # A host that was off has none of its guests left, should it ever be on again.
    off = done.off
    if not isinstance(off, PoweredOff):
        return {POWER: True}
    told: dict[str, object] = {POWER: True, HOST: str(off.host), REPORTED: str(off.reported)}
    if off.word:
        told[BY_WORD] = True
    return told if off.since_s is None else {**told, OFF_SINCE: off.since_s}


def was_off(conn: Connection, step: StepExecution) -> bool:
    """Whether a power switch has proved in this very rung that the host was off."""
    return any(True for _ in _power_proofs(conn, step))


async def off_of(step: StepExecution) -> PoweredOff | None:
    """Return the host that this very rung has proved off; None where none was, or none was named."""
    return await step.session.write(lambda conn: _off_of(conn, step))


def _off_of(conn: Connection, step: StepExecution) -> PoweredOff | None:
    found = (powered_off(data) for data in _power_proofs(conn, step))
    return next((off for off in found if off is not None), None)


def powered_off(data: Mapping[str, object]) -> PoweredOff | None:
    """Return the host that a proved fence's journal says is off; None where none was named."""
    host = data.get(HOST)
    if data.get(POWER) is not True or not isinstance(host, str) or not host:
        return None
    since_s = data.get(OFF_SINCE)
    return PoweredOff(
        host=host,
        reported=str(data.get(REPORTED) or ""),
        since_s=since_s if isinstance(since_s, int) else None,
        word=data.get(BY_WORD) is True,
    )


def _power_proofs(conn: Connection, step: StepExecution) -> list[Mapping[str, object]]:
    return [
        past.data
        for past in journal.of_action(conn, step.action.id)
        if past.rung == step.place.rung
        and past.stage == Stage.FENCE
        and past.result == Result.PROVED
        and past.data.get(POWER) is True
    ]


async def waived_of(step: StepExecution) -> frozenset[str]:
    """Return the copies of the node that an operator wants no proof of.

    None unless this very action has recorded a consent: that of an earlier one was to one copy more.
    """
    return await step.session.write(lambda conn: journal.waived(conn, step.action.id, step.node.id))
