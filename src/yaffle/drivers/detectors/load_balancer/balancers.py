"""The balancers of the settings, each asked over what leads to it and in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from yaffle.drivers.detectors.load_balancer import haproxy
from yaffle.drivers.detectors.load_balancer.answers import Answer
from yaffle.drivers.detectors.load_balancer.octavia import Octavia
from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed, Pools
from yaffle.drivers.detectors.load_balancer.pool_discovery import (
    Finds,
    Index,
    Owners,
    find,
    indexed,
)
from yaffle.drivers.detectors.load_balancer.settings import AnyBalancer, Balancer, CloudBalancer
from yaffle.integrations.http import HttpSession, address_rules

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.ports import Whole
    from yaffle.ports.context import DriverContext

AT_ONCE: Final = 4
"""Requests to one balancer at once: HAProxy's stats socket takes ten."""

LISTED_S: Final = 10.0
"""How long a list of all pools serves for finding pools; how they are is asked anew."""

T = TypeVar("T")
Question = Callable[[], Coroutine[object, object, T]]


class Balancers:
    """All that an operator has named."""

    def __init__(self, balancers: Mapping[str, AnyBalancer], context: DriverContext) -> None:
        self._balancers = balancers
        rules = address_rules(context)
        self._sessions = {
            name: HttpSession(rules, ca_file=one.ca_file)
            for name, one in balancers.items()
            if isinstance(one, Balancer)
        }
        self._clouds = {
            name: Octavia(one.credentials, context.clock)
            for name, one in balancers.items()
            if isinstance(one, CloudBalancer)
        }
        self._turns = {name: asyncio.Semaphore(AT_ONCE) for name in balancers}
        # Of one early look at a time; its sources must not wait for each other.
        self._early = {name: asyncio.Semaphore(AT_ONCE) for name in balancers}
        self._listing = {name: asyncio.Lock() for name in balancers}
        self._lists: dict[str, tuple[float, Index]] = {}
        self._finds = Finds()
        self._owners = Owners()
        self._now_s = context.clock.monotonic_s

    def named(self, options: Mapping[str, object]) -> AnyBalancer | str:
        """Return the balancer that a policy names, or the only one; or why there is none."""
        name = options.get("balancer")
        known = ", ".join(sorted(self._balancers))
        if not self._balancers:
            return (
                "there is no balancer here: the operator sets drivers.LB_STATUS_POLLING.balancers"
            )
        if name is None and len(self._balancers) > 1:
            return f"options.balancer is missing: name one of {known}"
        balancer = next(iter(self._balancers.values())) if name is None else None
        if balancer is None and isinstance(name, str):
            balancer = self._balancers.get(name)
        if balancer is None:
            return f"options.balancer: there is no {name!r} here; there is {known}"
        return balancer

    async def ask(
        self, balancer: AnyBalancer, pool: str, within_s: float, *, early: bool = False
    ) -> Answer:
        """Ask every source at once for one pool; an `early` look takes no poll's turn."""
        bound_s = min(within_s, balancer.timeout_s)
        if isinstance(balancer, CloudBalancer):
            cloud = self._clouds[balancer.name]
            questions = {"octavia": partial(cloud.ask, pool, within_s=bound_s)}
        else:
            session = self._sessions[balancer.name]
            questions = {
                source.words: partial(
                    haproxy.ask, source, balancer, pool, session, within_s=bound_s
                )
                for source in balancer.sources
            }
        return Answer(
            place=f"{balancer.name}/{pool}",
            noun="member" if isinstance(balancer, CloudBalancer) else "server",
            sources=await self._all(questions, balancer.name, bound_s, early=early),
        )

    async def find(
        self, balancer: AnyBalancer, targets: Sequence[Target], whole: Whole, within_s: float
    ) -> Listed | Failed:
        """Return the pool whose members the nodes are, by their addresses; or why it is not clear.

        `whole` returns the cluster that `targets` are of: some of its nodes do not decide.
        """
        refused = self._refused(balancer, targets)
        if refused is not None:
            return refused
        now_s = self._now_s()
        known = self._finds.known(balancer.name, targets, now_s)
        if known is not None:
            return known
        bound_s = min(within_s, balancer.timeout_s)
        try:
            async with asyncio.timeout(bound_s):
                cluster = await whole()
        except TimeoutError:
            cluster = ()
        if not {one.node_id for one in targets} <= {one.node_id for one in cluster}:
            why = "which nodes the cluster has is not known here; name the pool in the policy"
            return Failed(code="LB-NO-POOL", why=why)
        index = await self._listed(balancer, bound_s)
        if isinstance(index, Failed):
            return index
        refused = self._refused(balancer, cluster)
        if refused is not None:
            return refused
        found = find(cluster, index)
        self._finds.keep(balancer.name, cluster, found, now_s)
        return found

    def notice(self, targets: Sequence[Target]) -> None:
        """Take note of whose nodes there are."""
        self._owners.notice(targets)

    def _refused(self, balancer: AnyBalancer, targets: Sequence[Target]) -> Failed | None:
        if isinstance(balancer, Balancer):
            return self._owners.refusal(targets, "")
        project = self._clouds[balancer.name].project
        # Before the first list nobody knows whose it is; what comes out then is judged after it.
        return self._owners.refusal(targets, project) if project else None

    def lost(self, balancer: AnyBalancer, targets: Sequence[Target]) -> None:
        """The pool that was found is there no more."""
        self._finds.drop(balancer.name, targets)

    async def _listed(self, balancer: AnyBalancer, within_s: float) -> Index | Failed:
        """Return all pools; who asks meanwhile, or a moment later, gets the same answer."""
        try:
            async with asyncio.timeout(within_s), self._listing[balancer.name]:
                kept = self._lists.get(balancer.name)
                if kept is not None and self._now_s() - kept[0] < LISTED_S:
                    return kept[1]
                pools = await self._list(balancer, within_s)
                if isinstance(pools, Failed):
                    return pools
                index = await asyncio.to_thread(indexed, pools)
                self._lists[balancer.name] = self._now_s(), index
                return index
        except TimeoutError:
            return Failed(code="LB-TIMEOUT", why=_late(within_s))

    async def _list(self, balancer: AnyBalancer, within_s: float) -> Pools:
        if isinstance(balancer, CloudBalancer):
            cloud = self._clouds[balancer.name]
            questions = {"octavia": partial(cloud.ask_all, within_s=within_s)}
        else:
            session = self._sessions[balancer.name]
            questions = {
                source.words: partial(haproxy.ask_all, source, balancer, session, within_s=within_s)
                for source in balancer.sources
            }
        answers = [one for _, one in await self._all(questions, balancer.name, within_s)]
        told = [one for one in answers if not isinstance(one, Failed)]
        if not told:
            return next(one for one in answers if isinstance(one, Failed))
        # Several processes balance the same pools: what any of them has in a pool is in it.
        by_pool: dict[str, Listed] = {}
        for one in (pool for pools in told for pool in pools):
            before = by_pool.get(one.pool)
            both = (*before.members, *one.members) if before is not None else one.members
            by_pool[one.pool] = replace(one, members=both)
        return list(by_pool.values())

    async def _all(
        self,
        questions: Mapping[str, Question[T]],
        balancer: str,
        within_s: float,
        *,
        early: bool = False,
    ) -> Sequence[tuple[str, T | Failed]]:
        """Ask all at once; return each answer beside the name of who gave it."""
        turns = (self._early if early else self._turns)[balancer]
        async with asyncio.TaskGroup() as tasks:
            asked = [
                (name, tasks.create_task(self._ask(question, turns, within_s)))
                for name, question in questions.items()
            ]
        return [(name, task.result()) for name, task in asked]

    async def _ask(
        self, question: Question[T], turns: asyncio.Semaphore, within_s: float
    ) -> T | Failed:
        try:
            async with asyncio.timeout(within_s), turns:
                return await question()
        except TimeoutError:
            return Failed(code="LB-TIMEOUT", why=_late(within_s))


def _late(within_s: float) -> str:
    return f"no answer within {within_s:.3g} s"
