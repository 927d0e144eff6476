"""Tenancy: the projects served, all with a credential each or only the one of a shared credential.

Behind Keystone the people of many projects ask. Where a driver acts with one credential, whatever
they ask would be done in that credential's project: to its servers, and out of its quota.

    each project has a credential       everybody is served, with that of their own project
    one credential, of the asker's      served
    one credential, of another project  Forbidden, and how an operator serves them too
    which project is not known          DependencyError: "could not be asked" is not "the same"

Administrators act in every project with us, and are served in any case. So are people of a file of
users or tokens: their projects are words of the operator's, who shares the credential among them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import DependencyError, Forbidden
from yaffle.model.operations import ActsIn
from yaffle.ports import SupportsProjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.engine.runtime.context import Drivers
    from yaffle.model.authz import Principal

ASK_S: Final = 10.0
GRACE_S: Final = 1.0


class Tenancy:
    """Admits those whose requests may be served; what a credential is for is asked once."""

    def __init__(self, drivers: Drivers) -> None:
        every: Mapping[str, object] = {**drivers.profiles, **drivers.workflows}
        self._unknown = {k: d for k, d in sorted(every.items()) if isinstance(d, SupportsProjects)}
        self._of: dict[str, str] = {}
        """By driver, the one project in which it acts."""
        self._turn = asyncio.Lock()

    async def admit(self, who: Principal) -> None:
        """Return for somebody who is served; raise Forbidden, or DependencyError, for others."""
        if who.is_admin or not who.by_keystone:
            return
        if self._unknown:
            await self._learn()
        for kind, project in self._of.items():
            if project != who.project:
                raise Forbidden(
                    f"This Yaffle does not serve your project: what driver {kind} does, it does in a"
                    " project of its own.",
                    hint=f'an operator has to set credentials = "projects" in [drivers."{kind}"],'
                    " so that each project is served with a credential of its own",
                )

    async def _learn(self) -> None:
        """Learn what is not known yet; one asks at a time, and the others wait no longer than it."""
        try:
            async with asyncio.timeout(2 * ASK_S), self._turn:
                for kind, driver in list(self._unknown.items()):
                    acts = await acts_in(driver)
                    if not acts.per_project:
                        self._of[kind] = acts.project
                    del self._unknown[kind]
        except TimeoutError:
            raise DependencyError(f"{UNKNOWN}: too many wait for the answer") from None


UNKNOWN: Final = "which project the cloud's credential is for cannot be asked"


async def acts_in(driver: SupportsProjects) -> ActsIn:
    """Return in which project a driver acts; raise DependencyError while that is not known."""
    acts = await call_driver(
        lambda: driver.acts_in(deadline_s=ASK_S),
        ActsIn,
        within_s=ASK_S + GRACE_S,
        what="the cloud, of whose project its credential is,",
    )
    if isinstance(acts, Failure):
        raise DependencyError(f"{UNKNOWN}: {acts.why}")
    if not (acts.per_project or acts.project):
        raise DependencyError(f"{UNKNOWN}: {acts.detail}")
    return acts
