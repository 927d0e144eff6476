"""Takes bearings before many nodes are judged: do the reference targets answer, when no node does?"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from yaffle.core.addresses import AddressRules, refusal
from yaffle.core.blindness import MIN_TARGETS, Blindness, bearings, is_blind, silence

if TYPE_CHECKING:
    from yaffle.core.verdict import NodeMemory
    from yaffle.engine.kit import Kit

log = structlog.get_logger()

TIMEOUT_S = 2.0


class Bearings:
    """Asks the reference targets only when the nodes' silence calls for it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.sure = False
        """Whether two targets or more are silent, and not only unheard of since one of them is."""

    async def take(self, memories: Iterable[NodeMemory], references: tuple[str, ...]) -> Blindness:
        """Return who answered us; `is_blind` says whether that is nobody."""
        known = list(memories)
        silent = self._silent(known)
        if silent.answered or not silent.asked:
            return silent
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_answers(self._kit.rules, r)) for r in references]
        answered = sum(t.result() for t in tasks)
        found = replace(silent, references_asked=len(tasks), references_answered=answered)
        self.sure |= bool(tasks)
        if is_blind(found):
            self._kit.metrics.blind.labels("no answer from anywhere").inc()
            log.warning("blind", asked=found.asked, references=found.references_asked)
        return found

    def _silent(self, known: Sequence[NodeMemory]) -> Blindness:
        """Return who answered, the reference targets apart; one node's silence is no evidence."""
        own = bearings(known, ())
        self.sure = own.asked >= MIN_TARGETS
        fell = None if own.answered or self.sure else silence(known)
        if fell is None:
            return own
        heard = self._kit.tally.heard(fell.roads, self._kit.clock.monotonic_s())
        self.sure = heard.silent >= MIN_TARGETS
        # An answer from before proves nothing: the network may be gone since.
        wide = heard.since(fell.since_us)
        return wide if wide.asked >= MIN_TARGETS else own


async def _answers(rules: AddressRules, reference: str) -> bool:
    """Whether anything at all answers at `host:port` or at the URL's host; a refusal is an answer."""
    host, port = _address(reference)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # A policy's author must not reach through us what is denied to us (SECURITY.md).
            address = next(
                (str(a[4][0]) for a in found if refusal(rules, str(a[4][0])) is None), ""
            )
            if not address:
                return False
            _, writer = await asyncio.open_connection(address, port)
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _address(reference: str) -> tuple[str, int]:
    """Return where to connect; `host:port` and URLs alike."""
    parts = urlsplit(reference if "//" in reference else f"//{reference}")
    default = 443 if parts.scheme == "https" else 80
    return parts.hostname or "", parts.port or default
