"""A real prober for tests: the client runs on a thread's loop, the child is a real process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from tests.waiting import wait_for

from yaffle.core.addresses import AddressRules
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import NodeId
from yaffle.model.policy import UrlOptions
from yaffle.ports.detector import UrlResult, UrlTarget
from yaffle.prober.client import ProberClient, ProberStats


def until(what: Callable[[], bool]) -> None:
    """Poll until `what()`."""
    wait_for(what, every_s=0.01)


class LiveProber:
    """Use as a context manager; everything may be called from the test's own thread."""

    def __init__(
        self,
        *,
        rules: AddressRules | None = None,
        ca_file: str = "",
        sockets_max: int = 2_000,
        ping_s: float = 1.0,
    ) -> None:
        self.blind: list[str] = []
        self.results: dict[str, list[UrlResult]] = {}
        self.client = ProberClient(
            clock=SystemClock(),
            on_blind=self.blind.append,
            rules=rules,
            ca_file=ca_file,
            sockets_max=sockets_max,
            ping_s=ping_s,
        )
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._task = tasks.create_task(self.client.run())

    def __enter__(self) -> LiveProber:
        self._thread.start()
        until(lambda: self.client.stats.up)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def stats(self) -> ProberStats:
        return self.client.stats

    def probe_once(
        self, urls: Sequence[str], *, deadline_s: float = 60.0, **options: object
    ) -> Sequence[UrlResult]:
        targets = [UrlTarget(node_id=NodeId(f"n{i}"), url=url) for i, url in enumerate(urls)]
        future = asyncio.run_coroutine_threadsafe(
            self.client.probe(targets, url_options(**options), deadline_s=deadline_s), self._loop
        )
        return future.result(deadline_s + 60)

    def probe_all(
        self, urls: Sequence[str], *, deadline_s: float = 60.0, **options: object
    ) -> Sequence[UrlResult]:
        """Ask; again where the machine held the prober up, for then it says that it knows nothing."""
        while True:
            found = self.probe_once(urls, deadline_s=deadline_s, **options)
            if all(one.code != "X-LATE" for one in found):
                return found

    def probe(self, url: str, *, deadline_s: float = 60.0, **options: object) -> UrlResult:
        (result,) = self.probe_all([url], deadline_s=deadline_s, **options)
        return result

    def schedule(
        self, watch_id: str, targets: dict[str, str], *, interval_s: float, **options: object
    ) -> None:
        """`targets` maps node ids to URLs; what is seen lands in `results[node id]`."""

        def sink(results: Sequence[UrlResult]) -> None:
            for result in results:
                self.results.setdefault(result.node_id, []).append(result)

        self._loop.call_soon_threadsafe(
            lambda: self.client.schedule(
                watch_id,
                [UrlTarget(node_id=NodeId(node), url=url) for node, url in targets.items()],
                url_options(**options),
                interval_s=interval_s,
                sink=sink,
            )
        )

    def unschedule(self, watch_id: str) -> None:
        done = threading.Event()

        def stop() -> None:
            self.client.unschedule(watch_id)
            done.set()

        self._loop.call_soon_threadsafe(stop)
        assert done.wait(60)

    def seen(self, node: str) -> list[UrlResult]:
        return list(self.results.get(node, []))

    def codes(self) -> set[str]:
        return {one.code for results in list(self.results.values()) for one in list(results)}

    def told(self) -> set[str]:
        """As `codes`, but for what the machine kept the prober from finding out."""
        return self.codes() - {"X-LATE"}


def url_options(**options: object) -> UrlOptions:
    defaults: dict[str, object] = {"poll_url": "", "timeout_s": 30.0, "retry_interval_s": 0.1}
    return UrlOptions(**(defaults | options))  # type: ignore[arg-type]
