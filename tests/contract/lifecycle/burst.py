"""Sends COUNT notifications at once about NODES nodes, from a process of its own, when told to.

`python -m tests.contract.lifecycle.burst URL COUNT NODES`; it says that it is ready, and waits for a
line.
"""

from __future__ import annotations

import asyncio
import sys

from tests.contract.lifecycle.stage import power_off, sender


async def main(url: str, count: int, nodes: int) -> None:
    async with sender(url) as nova:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await nova.send(*(power_off(f"s{n % nodes}") for n in range(count)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
