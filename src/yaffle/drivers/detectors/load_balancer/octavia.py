"""Asks Octavia once for all members of a pool, by the pool's id or by its name.

A member's `operating_status` is what the balancer's health monitor finds of it. What an operator or
Octavia itself is doing to the member (`admin_state_up`, `provisioning_status`) comes first: then the
other says nothing of the node. Octavia tells no reason: of a member in ERROR nobody knows whether it
answered badly or not at all.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from yaffle.core.health import lb_member_status
from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed, Member, Pool, Pools
from yaffle.errors import NotFound, YaffleError
from yaffle.integrations.http import one_line
from yaffle.integrations.openstack import Client, Cloud, CloudsYaml, CloudUnavailable
from yaffle.integrations.openstack.sent_requests import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaffle.ports.clock import Clock

T = TypeVar("T")
SERVICE: Final = "load-balancer"
PAGE: Final = 1000
PAGES_MAX: Final = 20
POOLS_MAX: Final = 32
"""Pools with members that are looked through to find one: each is a request."""


class _Link(msgspec.Struct):
    rel: str = ""


class _Listed(msgspec.Struct):
    id: str
    operating_status: str
    provisioning_status: str
    address: str = ""
    protocol_port: int = 0
    name: str | None = None
    admin_state_up: bool = True


class _Id(msgspec.Struct):
    id: str


class _Members(msgspec.Struct):
    members: list[_Listed]
    members_links: list[_Link] = []


class _Named(msgspec.Struct):
    id: str
    name: str | None = None
    members: list[_Id] = []


class _Pools(msgspec.Struct):
    pools: list[_Named]
    pools_links: list[_Link] = []


class _NoPool(YaffleError):
    """Octavia has none of that name, or several."""


class Octavia:
    """Octavia of one cloud, for as long as the detector lives."""

    def __init__(self, credentials: CloudsYaml, clock: Clock) -> None:
        self._cloud = Cloud(credentials, clock)
        self._now_s: Callable[[], float] = clock.monotonic_s
        self._ids = Names()
        self.project = ""
        """Whose pools are listed: that of the credential; empty until they have been."""

    async def ask(self, pool: str, *, within_s: float) -> Pool:
        """Return the members of `pool`, or why they cannot be told; TimeoutError after `within_s`."""
        return await self._call(lambda client: self._members(client, pool), within_s)

    async def ask_all(self, *, within_s: float) -> Pools:
        """Return every pool of our project that has members; as `ask`."""
        return await self._call(self._pools, within_s)

    async def _call(self, work: Callable[[Client], T], within_s: float) -> T | Failed:
        try:
            return await self._cloud.call(work, within_s)
        except (_NoPool, NotFound) as error:
            return Failed(code="LB-NO-POOL", why=one_line(str(error)))
        except YaffleError as error:
            return Failed(code="LB-ERROR", why=one_line(str(error)))

    def _pools(self, client: Client) -> Sequence[Listed]:
        # An administrator sees everybody's, and two projects may have the same addresses.
        self.project = client.project_id
        if not self.project:
            raise _NoPool("its credential is of no project; name the pool in the policy")
        query: dict[str, str | int] = {"project_id": self.project, "limit": PAGE}
        page = client.get(SERVICE, "/v2/lbaas/pools", query=query).parsed(_Pools)
        filled = [one for one in page.pools if one.members]
        if len(filled) > POOLS_MAX or any(link.rel == "next" for link in page.pools_links):
            raise _NoPool(f"it has more than {POOLS_MAX} pools: name the one, options.pool")
        return [
            Listed(pool=one.id, name=one.name or one.id, members=self._members(client, one.id))
            for one in filled
        ]

    def _members(self, client: Client, pool: str) -> Sequence[Member]:
        ident = pool if _is_id(pool) else self._id_of(client, pool)
        found: list[_Listed] = []
        for _ in range(PAGES_MAX):
            query: dict[str, str | int] = {"limit": PAGE}
            query |= {"marker": found[-1].id} if found else {}
            answer = client.get(SERVICE, f"/v2/lbaas/pools/{ident}/members", query=query)
            page = answer.parsed(_Members)
            found += page.members
            if not page.members or not any(link.rel == "next" for link in page.members_links):
                return [_member(one) for one in found]
        raise CloudUnavailable(f"more than {PAGES_MAX} pages of members", sent=False)

    def _id_of(self, client: Client, name: str) -> str:
        """Return the id of the only pool of that name, as it was found a moment ago."""

        def look(given: str) -> str:
            found = client.get(SERVICE, "/v2/lbaas/pools", query={"name": given}).parsed(_Pools)
            if not found.pools:
                raise _NoPool(f"it has no pool {given!r}")
            if len(found.pools) > 1:
                raise _NoPool(f"it has {len(found.pools)} pools {given!r}: give the pool's id")
            return found.pools[0].id

        return self._ids.of("pool", name, self._now_s(), look)


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _member(one: _Listed) -> Member:
    host = f"[{one.address}]" if ":" in one.address else one.address
    aside = "" if one.admin_state_up else ", admin_state_up false"
    return Member(
        name=one.name or one.id,
        address=f"{host}:{one.protocol_port}" if host else "",
        code=lb_member_status.octavia(
            one.operating_status, one.provisioning_status, admin_up=one.admin_state_up
        ),
        words=one_line(f"{one.operating_status}, {one.provisioning_status}{aside}"),
    )
