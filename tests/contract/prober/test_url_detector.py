"""NODE_STATUS_POLL_URL end to end: expansion that cannot be abused, and what results mean."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.contract.prober import servers
from tests.contract.prober.live import LiveProber, until, url_options
from tests.contract.prober.servers import Server, answer, says

from yaffle.drivers.detectors.url import UrlDetector, expand
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports.context import DriverContext
from yaffle.prober.client import ProberClient


def target(name: str = "web-1", **attributes: object) -> Target:
    return Target(
        node_id=NodeId("id-1"),
        name=name,
        physical_id="",
        cluster_name="web cluster",
        profile_type="p-1.0",
        spec={},
        attributes=attributes,
    )


def mode(url: str, **options: object) -> DetectionMode:
    return DetectionMode(
        key=ModeKey("0:NODE_STATUS_POLL_URL"),
        type=ModeType.NODE_STATUS_POLL_URL,
        url=url_options(poll_url=url, **options),
    )


def detector(client: ProberClient) -> UrlDetector:
    return UrlDetector(DriverContext(clock=SystemClock(), state_dir=Path("/"), prober=client))


@pytest.mark.parametrize(
    ("template", "node", "url"),
    [
        ("http://{nodename}/h", target(), "http://web-1/h"),
        ("http://{node_ip}:{port}/", target(node_ip="10.0.0.1", port=80), "http://10.0.0.1:80/"),
        ("http://{node_ip}:80/", target(node_ip="2001:db8::1"), "http://[2001:db8::1]:80/"),
        ("http://[{node_ip}]/", target(node_ip="2001:db8::1"), "http://[2001:db8::1]/"),
        ("http://h/{node_ip}", target(node_ip="::1"), "http://h/%3A%3A1"),
        ("http://h/{cluster_name}", target(), "http://h/web%20cluster"),
        ("http://h/{node_id}?n={nodename}", target("a&b=c"), "http://h/id-1?n=a%26b%3Dc"),
        ("http://{node_ip}/", target(), "http://{node_ip}/"),
        ("http://{node_ip}/", target(node_ip=None), "http://{node_ip}/"),
        ("http://h:{port}/", target(port=True), "http://h:{port}/"),
        ("http://h/{physical_id}", target(), "http://h/{physical_id}"),
        ("http://h/{unheard_of}", target(), "http://h/{unheard_of}"),
        ("http://h/{nodename}", target("{node_id}"), "http://h/%7Bnode_id%7D"),
    ],
)
def test_expansion(template: str, node: Target, url: str) -> None:
    assert expand(template, node) == url


@pytest.mark.parametrize(
    "evil", ["a/b", "a@b", "a#b", "a?b", "a b", "a\r\nX: y", "a:81", "a\\b", "é"]
)
def test_a_name_cannot_change_the_structure(evil: str) -> None:
    with LiveProber() as live, Server(says(answer())) as server:
        ours = detector(live.client)
        host = f"http://{{nodename}}:{server.port}/"
        (seen,) = _check(live, ours, [target(evil)], mode(host))
        assert seen.code == "X-BAD-URL"
        path = f"http://127.0.0.1:{server.port}/nodes/{{nodename}}/health"
        assert expand(path, target(evil)).count("/") == 5
        (seen,) = _check(live, ours, [target(evil)], mode(path))
        assert seen.outcome is Outcome.PASS
        (seen,) = _check(live, ours, [target("..")], mode(path))
        assert seen.code == "X-BAD-URL"


def test_check_watch_and_unwatch() -> None:
    with LiveProber() as live, Server(says(answer(b"", "503 S"))) as server:
        ours = detector(live.client)
        nodes = [target(port=server.port), target()]
        sick, unexpanded = _check(live, ours, nodes, mode("http://127.0.0.1:{port}/health"))
        assert (sick.outcome, sick.code, sick.answered) == (Outcome.FAIL, "L7-STATUS", True)
        assert sick.mode == "0:NODE_STATUS_POLL_URL"
        assert sick.detail.startswith(f"GET http://127.0.0.1:{server.port}/health: 503 in ")
        assert (unexpanded.outcome, unexpanded.code) == (Outcome.UNKNOWN, "X-UNEXPANDED")
        assert "no port" in unexpanded.detail

        got: list[Observation] = []
        live._loop.call_soon_threadsafe(
            lambda: ours.watch(
                "w",
                nodes,
                mode("http://127.0.0.1:{port}/"),
                interval_s=0.1,
                sink=got.extend,
            )
        )
        # Also what cannot be asked is told every round.
        until(lambda: sum(one.code == "X-UNEXPANDED" for one in got) >= 2)
        until(lambda: sum(one.code == "L7-STATUS" for one in got) >= 2)


def test_connection_errors_follow_the_policy() -> None:
    url = f"http://127.0.0.1:{servers.free_port()}/"
    with LiveProber() as live:
        ours = detector(live.client)
        (one,) = _check(live, ours, [target()], mode(url))
        assert (one.outcome, one.answered) == (Outcome.FAIL, True)
        (one,) = _check(live, ours, [target()], mode(url, conn_error_as_unhealthy=False))
        assert (one.outcome, one.code) == (Outcome.UNKNOWN, "L4-REFUSED")


def test_prober_away_is_unknown() -> None:
    client = ProberClient(clock=SystemClock(), on_blind=lambda _why: None)
    seen = asyncio.run(
        detector(client).check([target(), target()], mode("http://h/"), deadline_s=1)
    )
    assert [(one.code, one.outcome) for one in seen] == [("X-PROBER", Outcome.UNKNOWN)] * 2


def test_needs_a_prober_and_no_settings() -> None:
    with pytest.raises(ConfigError, match="prober"):
        UrlDetector(DriverContext(clock=SystemClock(), state_dir=Path("/")))
    client = ProberClient(clock=SystemClock(), on_blind=lambda _why: None)
    context = DriverContext(
        clock=SystemClock(), state_dir=Path("/"), prober=client, settings={"colour": 1}
    )
    with pytest.raises(ConfigError, match="colour"):
        UrlDetector(context)


def _check(
    live: LiveProber, ours: UrlDetector, nodes: list[Target], how: DetectionMode
) -> Sequence[Observation]:
    while True:
        asking = ours.check(nodes, how, deadline_s=60)
        found = asyncio.run_coroutine_threadsafe(asking, live._loop).result(120)
        # What the machine kept the prober from finding out says nothing.
        if all(one.code != "X-LATE" for one in found):
            return found
