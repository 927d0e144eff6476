"""Which pool is a cluster's, where the policy names none: the one with the nodes' addresses, or none.

Only addresses count, never names: two backends may well have a server `web-1`. Exactly one pool may
have any of them, and it must have most: an address that happens to be somebody else's as well, in a
pool that has nothing to do with the cluster, must not make that pool the witness. What is not clear
stays unknown, and is said with the pools that it may be.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from yaffle.drivers.detectors.load_balancer.matching import addresses, places_of
from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed
from yaffle.model.operations import Target

FOUND_S: Final = 300.0
"""How long a pool that was found is not looked for again: another may have the addresses by then."""
MISSING_S: Final = 30.0
"""The same where none was."""
KEPT: Final = 4096
_NAMED_MAX: Final = 5


def find(targets: Sequence[Target], pools: Sequence[Listed]) -> Listed | Failed:
    """Return the only pool that has the nodes' addresses, or why there is none."""
    wanted = [one for one in map(addresses, targets) if one]
    if not wanted:
        return Failed(
            code="LB-NO-POOL", why="no node has an address to find a pool by: name it, options.pool"
        )
    having = [(one, sum(bool(some & places_of(one.members)) for some in wanted)) for one in pools]
    having = [(one, count) for one, count in having if count]
    if not having:
        return Failed(code="LB-NO-POOL", why=_none(pools))
    if len(having) > 1:
        names = [one.words for one, _ in having]
        more = ", …" if len(names) > _NAMED_MAX else ""
        listed = ", ".join(names[:_NAMED_MAX])
        return Failed(
            code="LB-AMBIGUOUS",
            why=f"{len(names)} pools have the nodes' addresses: {listed}{more}; name one,"
            " options.pool",
        )
    ((pool, count),) = having
    if count * 2 <= len(wanted):
        return Failed(
            code="LB-NO-POOL",
            why=f"pool {pool.words} has the addresses of {count} of {len(wanted)} nodes only: if"
            " it is theirs, name it, options.pool",
        )
    return pool


def _none(pools: Sequence[Listed]) -> str:
    if pools and not any(member.address for one in pools for member in one.members):
        return "it shows no addresses (HAProxy: level operator); name the pool, options.pool"
    return f"none of its {len(pools)} pools has a node's address; name the pool, options.pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    found: Listed | Failed
    nodes: frozenset[str]
    until_s: float


class Finds:
    """What was found a while ago, by balancer and cluster; bounded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def known(
        self, balancer: str, targets: Sequence[Target], now_s: float
    ) -> Listed | Failed | None:
        """Return what holds for these nodes; None where it has to be found (again)."""
        kept = self._kept.get(_key(balancer, targets))
        # A node that is new may be in another pool, and then nothing is clear any more.
        if kept is None or now_s >= kept.until_s or not kept.nodes >= _nodes(targets):
            return None
        return kept.found

    def keep(
        self, balancer: str, targets: Sequence[Target], found: Listed | Failed, now_s: float
    ) -> None:
        """Remember it for a while; of the pool that was found no more than where to ask."""
        until_s = now_s + (MISSING_S if isinstance(found, Failed) else FOUND_S)
        short = found if isinstance(found, Failed) else replace(found, members=())
        key = _key(balancer, targets)
        self._kept[key] = _Kept(found=short, nodes=_nodes(targets), until_s=until_s)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def drop(self, balancer: str, targets: Sequence[Target]) -> None:
        """What was found holds no more."""
        self._kept.pop(_key(balancer, targets), None)


def _key(balancer: str, targets: Sequence[Target]) -> tuple[str, str]:
    return balancer, targets[0].cluster_id or targets[0].node_id


def _nodes(targets: Sequence[Target]) -> frozenset[str]:
    return frozenset(target.node_id for target in targets)
