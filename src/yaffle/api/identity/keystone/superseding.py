"""Trusts in whose place there are newer ones are deleted in Keystone, while nobody waits for it.

A trust lasts until its user deletes it, and so whoever had to trust us anew would trust us twice, the
first time for ever. Nobody else may delete it: that is done with the token that made the newer one,
or of the user's next change, held for as long as it takes and no longer. What could not be deleted
is kept with the reason, and told by `yaffle credential list` and `yaffle doctor`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.errors import NotFound, YaffleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.api.identity.port import Known
    from yaffle.clouds.openstack import Client, Cloud
    from yaffle.engine.credentials import StoredCredentials
    from yaffle.ports import Clock

log = structlog.get_logger(__name__)

SETTLED_S: Final = 15.0
"""So long engines may go on with what they last looked up: a little more than `projects.FRESH_S`."""
CALL_S: Final = 15.0
QUEUE: Final = 256
"""Users who wait for it; one who finds no place does so with their next change."""

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    known: Known
    at_s: float
    """Monotonic."""


class Superseded:
    """What is to be deleted, and the one loop that does."""

    def __init__(
        self,
        kept: StoredCredentials,
        clouds: Mapping[str, Cloud],
        clock: Clock,
        *,
        settled_s: float = SETTLED_S,
    ) -> None:
        self._kept = kept
        self._clouds = clouds
        self._clock = clock
        self._settled_s = settled_s
        self._waiting: OrderedDict[_Key, _Due] = OrderedDict()
        self._more = asyncio.Event()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def offer(self, cloud: str, known: Known) -> None:
        """Let a user's token be used for what of theirs is to be deleted; waits for nothing."""
        key = (cloud, known.who.project, known.who.user)
        if key in self._waiting or len(self._waiting) >= QUEUE:
            return
        at_s = self._clock.monotonic_s() + self._settled_s
        self._waiting[key] = _Due(known=known, at_s=at_s)
        self._more.set()

    async def run(self) -> None:
        """Delete until cancelled."""
        while True:
            await self._more.wait()
            while self._waiting:
                key, due = next(iter(self._waiting.items()))
                await self._clock.sleep(max(0.0, due.at_s - self._clock.monotonic_s()))
                del self._waiting[key]
                try:
                    await self._tidied(key, due.known)
                except Exception:
                    # The engine lives beside this: a trust that stays is no reason to end it.
                    log.exception("superseded trusts not deleted", cloud=key[0], user=key[2])
            self._more.clear()

    async def _tidied(self, key: _Key, known: Known) -> None:
        try:
            left = await self._kept.superseded(*key)
        except YaffleError as error:
            log.info("superseded trusts not looked up", user=key[2], reason=str(error))
            return
        for reference in left:
            why = await self._deleted(key[0], known, reference)
            if not why:
                log.info("trust deleted", cloud=key[0], user=key[2], trust=reference)
                await self._kept.deleted(*key, reference)
                continue
            log.warning("trust not deleted", cloud=key[0], user=key[2], trust=reference, reason=why)
            await self._kept.not_deleted(*key, reference, why)

    async def _deleted(self, cloud: str, known: Known, reference: str) -> str:
        """Return why it is still there; empty where it is not."""

        def delete(client: Client) -> None:
            client.keystone("DELETE", f"/OS-TRUST/trusts/{reference}", token=known.token)

        try:
            await self._clouds[cloud].call(delete, CALL_S)
        except NotFound:
            return ""
        except TimeoutError:
            return f"no answer of Keystone within {CALL_S:g} s"
        except YaffleError as error:
            return str(error)
        return ""
