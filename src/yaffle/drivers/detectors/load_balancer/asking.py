"""The balancers of the settings, each asked over what leads to it and in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from yaffle.clouds.http import HttpSession, address_rules
from yaffle.drivers.detectors.load_balancer import haproxy
from yaffle.drivers.detectors.load_balancer.answers import Answer
from yaffle.drivers.detectors.load_balancer.octavia import Octavia
from yaffle.drivers.detectors.load_balancer.pool import Failed, Pool
from yaffle.drivers.detectors.load_balancer.settings import AnyBalancer, Balancer, CloudBalancer

if TYPE_CHECKING:
    from yaffle.ports.context import DriverContext

AT_ONCE: Final = 4
"""Requests to one balancer at once: HAProxy's stats socket takes ten."""

Question = Callable[[], Coroutine[object, object, Pool]]


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

    def named(self, options: Mapping[str, object]) -> tuple[AnyBalancer, str] | str:
        """Return balancer and pool, or why they are not to be had."""
        pool, name = options.get("pool"), options.get("balancer")
        known = ", ".join(sorted(self._balancers))
        if not isinstance(pool, str) or not pool:
            return "options.pool is missing: name the pool whose members the nodes are"
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
        return balancer, pool

    async def ask(self, balancer: AnyBalancer, pool: str, within_s: float) -> Answer:
        """Ask every source at once for one pool."""
        bound_s = min(within_s, balancer.timeout_s)
        questions = self._questions(balancer, pool, bound_s)
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(self._ask(question, balancer.name, bound_s))
                for _, question in questions
            ]
        return Answer(
            place=f"{balancer.name}/{pool}",
            noun="member" if isinstance(balancer, CloudBalancer) else "server",
            sources=[
                (name, task.result()) for task, (name, _) in zip(asked, questions, strict=True)
            ],
        )

    def _questions(
        self, balancer: AnyBalancer, pool: str, within_s: float
    ) -> Sequence[tuple[str, Question]]:
        """Return what to ask of each source, by its name."""
        if isinstance(balancer, CloudBalancer):
            cloud = self._clouds[balancer.name]
            return [("octavia", partial(cloud.ask, pool, within_s=within_s))]
        session = self._sessions[balancer.name]
        return [
            (
                source.words,
                partial(haproxy.ask, source, balancer, pool, session, within_s=within_s),
            )
            for source in balancer.sources
        ]

    async def _ask(self, question: Question, balancer: str, within_s: float) -> Pool:
        try:
            async with asyncio.timeout(within_s), self._turns[balancer]:
                return await question()
        except TimeoutError:
            return Failed(code="LB-TIMEOUT", why=f"no answer within {within_s:.3g} s")
