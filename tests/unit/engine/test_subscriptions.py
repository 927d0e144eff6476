"""Each detector is begun, aimed, asked to forget and released as its kind wants it, and by one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from yaffle.engine.detection.cluster_snapshot import ClusterSnapshot
from yaffle.engine.detection.subscriptions import Subscriptions
from yaffle.engine.runtime.context import EngineContext
from yaffle.model.ids import ClusterId, ModeKey, NodeId
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType


@dataclass
class Polled:
    """A detector that only answers."""

    type: str = "X"
    said: list[tuple[Any, ...]] = field(default_factory=list)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> list[Any]:
        return []


class Pushing(Polled):
    def watch(
        self, ident: str, targets: Sequence[Target], mode: DetectionMode, **more: Any
    ) -> None:
        self.said.append(("watch", ident, [t.name for t in targets], more["interval_s"]))

    def unwatch(self, ident: str) -> None:
        self.said.append(("unwatch", ident))


class Heeding(Polled):
    def listen(
        self, ident: str, targets: Sequence[Target], mode: DetectionMode, **more: Any
    ) -> None:
        self.said.append(("listen", ident, [t.name for t in targets], more["interval_s"]))

    def ignore(self, ident: str) -> None:
        self.said.append(("ignore", ident))

    def forget(self, ident: str) -> None:
        self.said.append(("forget", ident))


def mode(kind: ModeType) -> DetectionMode:
    return DetectionMode(key=ModeKey(f"0:{kind}"), type=kind)


def node(name: str, physical_id: str) -> Target:
    return Target(
        node_id=NodeId(name), name=name, physical_id=physical_id, profile_type="p", spec={}
    )


def test_each_as_its_kind_wants_it() -> None:
    kinds = (
        ModeType.LB_STATUS_POLLING,
        ModeType.NODE_STATUS_POLL_URL,
        ModeType.NODE_STATUS_POLLING,
    )
    heeding, pushing, polled = Heeding(), Pushing(), Polled()
    detectors = dict(zip(kinds, (heeding, pushing, polled), strict=True))
    ctx = cast("EngineContext", SimpleNamespace(drivers=SimpleNamespace(detectors=detectors)))
    streams = Subscriptions(ctx, ClusterId("c"), lambda _: None)
    # One that was never made cannot be asked for.
    targets = {"a": node("a", "there"), "b": node("b", "")}
    detection = SimpleNamespace(interval_s=7.0)
    scene = SimpleNamespace(targets=targets, policy=SimpleNamespace(detection=detection))
    modes = [mode(kind) for kind in kinds]

    assert [streams.has(one) for one in modes] == [False, True, False]
    streams.aim(cast("ClusterSnapshot", scene), modes)
    streams.forget(modes)
    streams.release(modes)
    heard, pushed = "c/0:LB_STATUS_POLLING", "c/0:NODE_STATUS_POLL_URL"
    assert heeding.said == [("listen", heard, ["a"], 7.0), ("forget", heard), ("ignore", heard)]
    assert pushing.said == [("watch", pushed, ["a"], 7.0), ("unwatch", pushed)]
    assert polled.said == []
