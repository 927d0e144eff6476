"""HYPERVISOR_STATUS_POLLING: a lost machine is a failure, a closed one is not, silence is unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.drivers.detectors.backend.hypervisor import HypervisorDetector
from yaffle.errors import ConfigError, DependencyError
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import HostReading, Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext

KEY = ModeKey("0:HYPERVISOR_STATUS_POLLING")
MODE = DetectionMode(key=KEY, type=ModeType.HYPERVISOR_STATUS_POLLING)
KIND = "made.up-1.0"


class RealClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Hosting:
    """A profile whose hosts are as told, or that fails to say."""

    def __init__(self, told: Sequence[HostReading] | Exception | None) -> None:
        self._told = told

    async def hosts(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[HostReading]:
        if self._told is None:
            await asyncio.Event().wait()
        if isinstance(self._told, Exception):
            raise self._told
        assert self._told is not None
        return self._told


def check(profile: object, nodes: int = 1, deadline_s: float = 5.0) -> Sequence[Observation]:
    context = DriverContext(clock=RealClock(), state_dir=Path(), profiles={KIND: profile})  # type: ignore[dict-item]
    targets = [
        Target(node_id=NodeId(f"n{n}"), name=f"n{n}", physical_id="x", profile_type=KIND, spec={})
        for n in range(nodes)
    ]
    return asyncio.run(HypervisorDetector(context).check(targets, MODE, deadline_s=deadline_s))


UP = HostReading(name="cmp1", up=True, detail="up")
CLOSED = HostReading(name="cmp1", up=True, detail="up, disabled: new disks", enabled=False)
DOWN = HostReading(name="cmp1", up=False, detail="down since 12:00")
GONE = HostReading(name="cmp1", up=False, exists=False, detail="no such host")
UNSURE = HostReading(name="", up=None, detail="the server names no host")


@pytest.mark.parametrize(
    ("host", "code", "outcome"),
    [
        (UP, "HV-UP", Outcome.PASS),
        (CLOSED, "HV-UP", Outcome.PASS),
        (DOWN, "HV-DOWN", Outcome.FAIL),
        (GONE, "HV-GONE", Outcome.FAIL),
        (UNSURE, "HV-UNCLEAR", Outcome.UNKNOWN),
    ],
)
def test_a_host_means_a_row(host: HostReading, code: str, outcome: Outcome) -> None:
    (seen,) = check(Hosting([host]))
    assert (seen.code, seen.outcome, seen.mode) == (code, outcome, KEY)
    assert seen.answered is OUTCOMES[code].answered
    assert host.detail in seen.detail


def test_answers_go_to_their_nodes() -> None:
    seen = check(Hosting([UP, DOWN, UP]), nodes=3)
    assert [(o.node_id, o.code) for o in seen] == [
        ("n0", "HV-UP"),
        ("n1", "HV-DOWN"),
        ("n2", "HV-UP"),
    ]


@pytest.mark.parametrize(
    ("profile", "code", "says"),
    [
        (Hosting(OSError("no route")), "HV-ERROR", "no route"),
        (Hosting(DependencyError("the cloud is away")), "HV-ERROR", "the cloud is away"),
        (Hosting(None), "HV-TIMEOUT", "in time"),
        (Hosting([UP, UP]), "X-BUG", "2 answers for 1 nodes"),
        (object(), "HV-ERROR", "has no hosts"),
    ],
    ids=["error", "away", "hangs", "miscounts", "no hosts"],
)
def test_no_answer_is_unknown(profile: object, code: str, says: str) -> None:
    # Who answers may be held up before that: only silence needs little time.
    (seen,) = check(profile, deadline_s=0.2 if code == "HV-TIMEOUT" else 60.0)
    assert (seen.code, seen.outcome, seen.answered) == (code, Outcome.UNKNOWN, False)
    assert says in seen.detail


def test_it_has_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"HYPERVISOR_STATUS_POLLING.interval: there is no such"):
        HypervisorDetector(
            DriverContext(clock=RealClock(), state_dir=Path(), settings={"interval": 3})
        )
