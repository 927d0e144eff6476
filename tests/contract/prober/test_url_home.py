"""The loopback address of another machine's node is nobody's here: a stranger answers there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.contract.prober.live import LiveProber, url_options
from tests.contract.prober.servers import Server, answer, says

from yaffle.drivers.detectors.url import UrlDetector
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.machine_identity import MachineIdentity
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports.context import DriverContext

HERE = MachineIdentity(ident="here", host="alpha")
THERE = MachineIdentity(ident="there", host="beta")


def look(live: LiveProber, url: str, **attributes: object) -> Observation:
    """Ask once, as an engine at HERE does."""
    context = DriverContext(clock=SystemClock(), state_dir=Path("/"), prober=live.client, home=HERE)
    node = Target(
        node_id=NodeId("id-1"),
        name="web-1",
        physical_id="x",
        profile_type="p-1.0",
        spec={},
        attributes=attributes,
    )
    mode = DetectionMode(
        key=ModeKey("0:NODE_STATUS_POLL_URL"),
        type=ModeType.NODE_STATUS_POLL_URL,
        url=url_options(poll_url=url),
    )
    while True:
        asking = UrlDetector(context).check([node], mode, deadline_s=60)
        (seen,) = asyncio.run_coroutine_threadsafe(asking, live._loop).result(120)
        # What the machine kept the prober from finding out says nothing.
        if seen.code != "X-LATE":
            return seen


@pytest.mark.parametrize("url", ["http://{node_ip}:{port}/", "http://127.0.0.1:{port}/"])
@pytest.mark.parametrize("loopback", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_it_is_not_asked(url: str, loopback: str) -> None:
    with LiveProber() as live, Server(says(answer(b"", "503 S"))) as server:
        seen = look(live, url, node_ip=loopback, port=server.port, **THERE.stamp())
        assert (seen.outcome, seen.code) == (Outcome.UNKNOWN, "X-UNEXPANDED")


def test_our_own_is_asked_and_so_is_whatever_has_an_address_of_its_own() -> None:
    with LiveProber() as live, Server(says(answer(b"", "503 S"))) as server:
        url = f"http://127.0.0.1:{server.port}/?{{node_ip}}"
        for attributes in (
            {"node_ip": "127.0.0.1", **HERE.stamp()},
            {"node_ip": "127.0.0.1"},
            {"node_ip": "10.0.0.7", **THERE.stamp()},
        ):
            assert look(live, url, **attributes).outcome is Outcome.FAIL
