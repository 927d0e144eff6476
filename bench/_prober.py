"""Our side of the benches that ask URLs: the real prober, a process of its own, under its client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from _measure import Cost, Sample
from _responder import Responder

from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import NodeId
from yaffle.model.policy import UrlOptions
from yaffle.ports.detector import UrlResult, UrlTarget
from yaffle.prober.client import ProberClient

WARM_UP_S = 3.0


def ask(
    responder: Responder, *, nodes: int, interval_s: float, seconds: float, pattern: str = ""
) -> Cost:
    """CPU of the prober per answer of the responder, with parsing, results and all."""
    return asyncio.run(_ask(responder, nodes, interval_s, seconds, pattern))


async def _ask(
    responder: Responder, nodes: int, interval_s: float, seconds: float, pattern: str
) -> Cost:
    blind: list[str] = []
    codes: Counter[str] = Counter()

    def sink(results: Sequence[UrlResult]) -> None:
        codes.update(result.code for result in results)

    client = ProberClient(clock=SystemClock(), on_blind=blind.append)
    options = UrlOptions(poll_url=responder.url, healthy_response=pattern)
    targets = [UrlTarget(node_id=NodeId(f"node-{n}"), url=responder.url) for n in range(nodes)]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.run())
        client.schedule("bench", targets, options, interval_s=interval_s, sink=sink)
        async with asyncio.timeout(30):
            while not client.stats.up:
                await asyncio.sleep(0.05)
        # Every node was asked once: what is made on first use is made.
        await asyncio.sleep(WARM_UP_S + interval_s)
        sample = Sample(client.stats.pid, responder.answers)
        await asyncio.sleep(seconds)
        cost = sample.end()
        running.cancel()
    del codes["L7-OK"]
    if blind or codes:
        print(f"    note: not all passed: {dict(codes)} {blind}")
    return cost
