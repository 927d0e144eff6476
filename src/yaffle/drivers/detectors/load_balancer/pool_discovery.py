"""Discovery of a cluster's pool where the policy names none: the one with the nodes' addresses.

Only addresses count, never names: two backends may well have a server `web-1`. Exactly one pool may
have any of them, and it must have those of most: an address that happens to be somebody else's as
well, in a pool that has nothing to do with the cluster, must not make that pool the witness. So it is
asked of whole clusters, never of a node alone. What is not clear stays unknown, and is said with the
pools that it may be.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from yaffle.drivers.detectors.load_balancer.member_matching import Place, addresses, places_of
from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed
from yaffle.model.authz import DEFAULT_PROJECT
from yaffle.model.operations import Target

FOUND_S: Final = 300.0
"""How long a pool that was found is not looked for again: another may have the addresses by then."""
MISSING_S: Final = 30.0
"""The same where none was."""
KEPT: Final = 4096
_NOBODYS: Final = frozenset({"", DEFAULT_PROJECT})
"""The projects of nodes where nobody tells projects apart."""
_NAMED_MAX: Final = 5


class Owners:
    """Whose nodes may look for their pool: networks of two projects may have the same addresses.

    A project's, in the pools of that project. Where no project is told of the pools (HAProxy), or
    projects are no more than our own word, there has to be a single one here.
    """

    def __init__(self) -> None:
        self._several = False

    def notice(self, targets: Sequence[Target]) -> None:
        """Remember whether there are nodes of other projects than the one that everybody is in."""
        self._several = self._several or any(one.project not in _NOBODYS for one in targets)

    def refusal(self, targets: Sequence[Target], pools_project: str) -> Failed | None:
        """Return why no pool is looked for, naming none; `pools_project` is empty where not known."""
        projects = {one.project for one in targets}
        if pools_project and projects == {pools_project}:
            return None
        if projects <= _NOBODYS and not self._several:
            return None
        why = (
            "whether its pools are of the nodes' project is not known; name the pool in the policy"
        )
        return Failed(code="LB-NO-POOL", why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Index of addresses: a list of all pools is read once, and not once for each node."""

    pools: Sequence[Listed]
    """Without their members."""
    by_place: Mapping[Place, Sequence[int]]
    """Which of `pools` have it."""


def indexed(pools: Sequence[Listed]) -> Index:
    """Return it; some 10 µs a member, which is much for an event loop."""
    by_place: defaultdict[Place, list[int]] = defaultdict(list)
    for number, one in enumerate(pools):
        for place in places_of(one.members):
            by_place[place].append(number)
    return Index(pools=[replace(one, members=()) for one in pools], by_place=dict(by_place))


def find(cluster: Sequence[Target], index: Index) -> Listed | Failed:
    """Return the only pool that has the addresses of a whole cluster, or why there is none."""
    pools = index.pools
    wanted = [one for one in map(addresses, cluster) if one]
    if not wanted:
        return Failed(
            code="LB-NO-POOL", why="no node has an address to find a pool by: name it, options.pool"
        )
    counts: Counter[int] = Counter()
    for some in wanted:
        counts.update({number for place in some for number in index.by_place.get(place, ())})
    having = [(pools[number], counts[number]) for number in sorted(counts)]
    if not having:
        return Failed(code="LB-NO-POOL", why=_none(index))
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
    # Of all, whether they have an address or not: one of ten must not speak for the others.
    if count * 2 <= len(cluster):
        return Failed(
            code="LB-NO-POOL",
            why=f"pool {pool.words} has the addresses of {count} of {len(cluster)} nodes only: if"
            " it is theirs, name it, options.pool",
        )
    return pool


def _none(index: Index) -> str:
    if index.pools and not index.by_place:
        return "it shows no addresses (HAProxy: level operator); name the pool, options.pool"
    return f"none of its {len(index.pools)} pools has a node's address; name the pool, options.pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    found: Listed | Failed
    nodes: frozenset[str]
    until_s: float


class Finds:
    """Cache of what was found, by balancer and cluster; bounded."""

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
        self, balancer: str, cluster: Sequence[Target], found: Listed | Failed, now_s: float
    ) -> None:
        """Remember for a while what came out for a whole cluster."""
        until_s = now_s + (MISSING_S if isinstance(found, Failed) else FOUND_S)
        key = _key(balancer, cluster)
        self._kept[key] = _Kept(found=found, nodes=_nodes(cluster), until_s=until_s)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def drop(self, balancer: str, targets: Sequence[Target]) -> None:
        """Forget what was found."""
        self._kept.pop(_key(balancer, targets), None)


def _key(balancer: str, targets: Sequence[Target]) -> tuple[str, str]:
    return balancer, targets[0].cluster_id or targets[0].node_id


def _nodes(targets: Sequence[Target]) -> frozenset[str]:
    # One that was never made may get an address in another pool.
    return frozenset(target.node_id for target in targets if target.physical_id)
