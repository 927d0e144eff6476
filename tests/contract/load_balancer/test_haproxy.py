"""LB_STATUS_POLLING with a real HAProxy: what it says of its servers counts, its silence does not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from tests.contract.load_balancer.proxy import (
    HAVE,
    PASSWORD,
    Proxy,
    Web,
    proxied,
    silent_listener,
    until,
    webs,
)
from tests.given import Given, given_clock
from tests.private import private
from tests.waiting import wait_until

from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ClusterId, ModeKey, NodeId
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext
from yaffle.testing import check_detector

pytestmark = pytest.mark.skipif(not HAVE, reason="there is no haproxy")
PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
KEY = ModeKey("0:LB_STATUS_POLLING")


def mode(pool: str = "web", **options: object) -> DetectionMode:
    return DetectionMode(
        key=KEY, type=ModeType.LB_STATUS_POLLING, options={"pool": pool, **options}
    )


def node(name: str, **attributes: object) -> Target:
    return Target(
        node_id=NodeId(f"id-of-{name}"),
        name=name,
        physical_id=f"copy-of-{name}",
        profile_type="made.up-1.0",
        spec={},
        attributes=attributes,
    )


def detector(**balancers: dict[str, object]) -> LoadBalancerDetector:
    # Patient: who looks says how long it may take, where the test is about that.
    made = {name: {"type": "haproxy", "timeout": 60, **b} for name, b in balancers.items()}
    settings = {"balancers": made}
    return LoadBalancerDetector(
        DriverContext(clock=SystemClock(), state_dir=Path(), settings=settings)
    )


def look(
    which: LoadBalancerDetector, *nodes: Target, deadline_s: float = 60, pool: str = "web"
) -> Sequence[Observation]:
    return asyncio.run(which.check(nodes, mode(pool), deadline_s=deadline_s))


def ended(which: LoadBalancerDetector, *nodes: Target) -> Sequence[Observation]:
    """Look when no check is under way, during which HAProxy says less of the last one."""
    found: list[Sequence[Observation]] = []

    def told() -> bool:
        found.append(look(which, *nodes))
        # Without its word a refused connection is silence, and then no failure either.
        ill = [o for o in found[-1] if o.outcome is not PASS]
        return all("503" in o.detail or "refused" in o.detail for o in ill)

    until(told)
    return found[-1]


def by_socket(proxy: Proxy) -> LoadBalancerDetector:
    return detector(edge={"socket": str(proxy.socket)})


@pytest.fixture
def servers() -> Iterator[Sequence[Web]]:
    with webs(3) as found:
        yield found


@pytest.fixture
def proxy(servers: Sequence[Web]) -> Iterator[Proxy]:
    lines = "".join(
        f"    server web-{n} 127.0.0.1:{web.port} check\n" for n, web in enumerate(servers, 1)
    )
    extra = f"    server bare 127.0.0.1:{servers[0].port}\n"
    other = "backend other\n    server web-1 127.0.0.1:1\n"
    with proxied(f"backend web\n    option httpchk\n{lines}{extra}{other}") as found:
        until(lambda: found.passes("web", "web-1", "web-2", "web-3"))
        yield found


@pytest.fixture(params=["unix", "tcp", "http"])
def way(request: pytest.FixtureRequest, proxy: Proxy, tmp_path: Path) -> LoadBalancerDetector:
    """The same question by each way there is."""
    match request.param:
        case "unix":
            return by_socket(proxy)
        case "tcp":
            return detector(edge={"socket": f"127.0.0.1:{proxy.tcp}"})
        case _:
            private(tmp_path / "password", f"{PASSWORD}\n")
            url = f"http://127.0.0.1:{proxy.http}/stats;csv"
            signed = {"username": "reader", "password_file": str(tmp_path / "password")}
            return detector(edge={"url": url, **signed})


def test_what_it_says_of_its_servers(
    way: LoadBalancerDetector, proxy: Proxy, servers: Sequence[Web]
) -> None:
    seen = look(way, node("web-1"), node("web-2"), node("web-9"), node("bare"))
    assert [(o.code, o.outcome) for o in seen] == [
        ("LB-UP", PASS),
        ("LB-UP", PASS),
        ("LB-NO-MEMBER", UNKNOWN),
        ("LB-UNCHECKED", UNKNOWN),
    ]
    assert [o.node_id for o in seen] == [f"id-of-{n}" for n in ("web-1", "web-2", "web-9", "bare")]
    assert seen[0].detail.startswith("edge/web: server web-1 is UP, L7OK")
    assert "no server is named web-9" in seen[2].detail
    assert seen[0].answered
    assert not seen[2].answered

    servers[0].die()
    servers[1].status = 503
    until(lambda: proxy.status("web", "web-1") == proxy.status("web", "web-2") == "DOWN")
    refused, sick, well = ended(way, node("web-1"), node("web-2"), node("web-3"))
    assert [o.outcome for o in (refused, sick, well)] == [FAIL, FAIL, PASS]
    assert refused.code == sick.code == "LB-DOWN"
    assert "is DOWN, L4CON, " in refused.detail
    assert "refused" in refused.detail
    assert "is DOWN, L7STS 503" in sick.detail
    assert refused.answered


def test_a_server_that_hangs_is_down(servers: Sequence[Web]) -> None:
    hasty = f"    server web-2 127.0.0.1:{servers[1].port} check\n"
    with proxied(f"backend web\n    timeout check 300ms\n    option httpchk\n{hasty}") as proxy:
        servers[1].hangs.set()
        until(lambda: proxy.status("web", "web-2").startswith("DOWN"))
        # While this process is held up nobody takes HAProxy's connections: that is silence.
        seen = wait_until(
            lambda: look(by_socket(proxy), node("web-2"))[0], lambda seen: "L7TOUT" in seen.detail
        )
        assert (seen.code, seen.outcome, seen.answered) == ("LB-DOWN", FAIL, True)
        assert "L7TOUT" in seen.detail


def test_what_an_operator_does_is_no_failure(proxy: Proxy) -> None:
    which = by_socket(proxy)
    for command, code, outcome in (
        ("set server web/web-1 state maint", "LB-MAINT", UNKNOWN),
        ("set server web/web-1 state drain", "LB-DRAIN", WARN),
        ("set server web/web-1 state ready", "LB-UP", PASS),
        ("disable health web/web-1", "LB-UNCHECKED", UNKNOWN),
    ):
        assert proxy.say(command).strip() == ""
        until(lambda code=code: look(which, node("web-1"))[0].code == code)  # type: ignore[misc]
        (seen,) = look(which, node("web-1"))
        assert (seen.code, seen.outcome) == (code, outcome), seen.detail


def test_nothing_is_known_before_the_first_check() -> None:
    with silent_listener() as listener:
        port = listener.getsockname()[1]
        slow = f"    server web-1 127.0.0.1:{port} check inter 60s\n"
        text = f"backend web\n    timeout check 30s\n    option httpchk\n{slow}"
        with proxied(text) as proxy:
            assert proxy.status("web", "web-1").startswith("UP")
            (seen,) = look(by_socket(proxy), node("web-1"))
            assert (seen.code, seen.outcome) == ("LB-INITIAL", UNKNOWN), seen.detail


def test_a_node_is_found_by_id_and_by_address(proxy: Proxy, servers: Sequence[Web]) -> None:
    which = by_socket(proxy)
    here, port = "127.0.0.1", servers[1].port
    found, ambiguous, bare = look(
        which,
        node("other-name", node_ip=here, port=port),
        node("web-3", node_ip=here, port=servers[0].port),
        node("no-port", node_ip=here),
    )
    assert found.code == "LB-UP"
    assert "server web-2 is UP" in found.detail
    # Its name is one server's and its address another's: somebody is wrong, and we do not guess.
    assert ambiguous.code == "LB-AMBIGUOUS"
    assert bare.code == "LB-AMBIGUOUS"
    assert {ambiguous.outcome, bare.outcome} == {UNKNOWN}


def test_two_nodes_are_not_one_member(proxy: Proxy, servers: Sequence[Web]) -> None:
    seen = look(
        by_socket(proxy), node("web-2"), node("x", node_ip="127.0.0.1", port=servers[1].port)
    )
    assert [o.code for o in seen] == ["LB-AMBIGUOUS"] * 2


def test_a_pool_that_does_not_exist_is_told(way: LoadBalancerDetector, proxy: Proxy) -> None:
    (seen,) = look(way, node("web-1"), pool="wbe")
    assert (seen.code, seen.outcome) == ("LB-NO-POOL", UNKNOWN)
    assert "edge/wbe: it has no backend 'wbe'" in seen.detail


def test_over_http_who_asks_has_to_sign(proxy: Proxy, tmp_path: Path) -> None:
    private(tmp_path / "password", PASSWORD)
    url = f"http://127.0.0.1:{proxy.http}/stats;csv"
    signed = {"username": "reader", "password_file": str(tmp_path / "password")}
    (seen,) = look(detector(edge={"url": url, **signed}), node("web-1"), pool="wbe")
    assert seen.code == "LB-NO-POOL"
    assert "other" not in seen.detail, "it may be another project's"
    (seen,) = look(detector(edge={"url": url}), node("web-1"))
    assert (seen.code, seen.outcome) == ("LB-ERROR", UNKNOWN)
    assert "HTTP 401" in seen.detail
    page = url.removesuffix(";csv")
    (seen,) = look(detector(edge={"url": page, **signed}), node("web-1"))
    assert "no CSV" in seen.detail


def test_a_frozen_balancer_is_unknown_in_time(way: LoadBalancerDetector, proxy: Proxy) -> None:
    proxy.freeze()
    with Given() as time_given:
        seen = look(way, node("web-1"), node("web-2"), deadline_s=1)
        assert time_given.s < 1.5
    assert {(o.code, o.outcome, o.answered) for o in seen} == {("LB-TIMEOUT", UNKNOWN, False)}
    assert "no answer within" in seen[0].detail


def test_a_dead_balancer_is_unknown(way: LoadBalancerDetector, proxy: Proxy) -> None:
    proxy.end()
    (seen,) = look(way, node("web-1"))
    assert (seen.code, seen.outcome) == ("LB-ERROR", UNKNOWN)


def test_the_kit_finds_nothing(proxy: Proxy) -> None:
    @asynccontextmanager
    async def frozen() -> AsyncIterator[None]:
        proxy.freeze()
        yield
        proxy.thaw()

    nodes = [node("web-1"), node("web-9"), node("web-2")]
    with given_clock() as clock:
        checked = check_detector(by_socket(proxy), nodes, mode(), clock=clock, hang=frozen)
        assert [o.code for o in asyncio.run(checked)] == ["LB-UP", "LB-NO-MEMBER", "LB-UP"]


def test_who_waits_for_a_turn_is_unknown_in_time_too(proxy: Proxy) -> None:
    which = by_socket(proxy)
    proxy.freeze()

    async def many() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            done = [
                tasks.create_task(which.check([node("web-1")], mode(), deadline_s=1))
                for _ in range(12)
            ]
        return [task.result()[0].code for task in done]

    with Given() as time_given:
        assert asyncio.run(many()) == ["LB-TIMEOUT"] * 12
        assert time_given.s < 1.7


def test_a_thousand_servers_are_one_request(tmp_path: Path) -> None:
    with webs(1) as (web,):
        lines = "".join(f"    server n{n} 127.0.0.1:{web.port}\n" for n in range(1000))
        with proxied(f"backend web\n{lines}") as proxy, counting(proxy) as relay:
            which = detector(edge={"socket": f"127.0.0.1:{relay.port}"})
            nodes = [node(f"n{n}") for n in range(1000)]
            with Given() as time_given:
                seen = look(which, *nodes)
                assert time_given.s < 3
            assert {o.code for o in seen} == {"LB-UNCHECKED"}
            assert [o.node_id for o in seen] == [n.node_id for n in nodes]
            assert relay.asked == [b"show stat web 6 -1\n"]
            private(tmp_path / "password", PASSWORD)
            page = {
                "url": f"http://127.0.0.1:{proxy.http}/stats;csv",
                "username": "reader",
                "password_file": str(tmp_path / "password"),
            }
            assert {o.code for o in look(detector(edge=page), *nodes)} == {"LB-UNCHECKED"}


class counting:  # noqa: N801 - used as a function
    """Stands before a stats socket and notes what is asked of it."""

    def __init__(self, proxy: Proxy) -> None:
        self._to = ("127.0.0.1", proxy.tcp)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> counting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, socket.create_connection(self._to) as proxy:
                self.asked.append(caller.recv(4096))
                proxy.sendall(self.asked[-1])
                while chunk := proxy.recv(65_536):
                    caller.sendall(chunk)


# --- several balancers ---


def looked_past(which: LoadBalancerDetector, *codes: str, deadline_s: float = 60) -> Observation:
    """Look until it is something else.

    Where a check is under way HAProxy says no word of the last one: in some looks of a thousand.
    """

    def look_once() -> Observation:
        return look(which, node("web-1"), deadline_s=deadline_s)[0]

    return wait_until(look_once, lambda seen: seen.code not in codes)


def test_a_node_is_down_only_if_all_that_answer_say_so(servers: Sequence[Web]) -> None:
    good = f"backend web\n    server web-1 127.0.0.1:{servers[0].port} check\n"
    bad = "backend web\n    server web-1 127.0.0.1:1 check\n"
    with proxied(good) as one, proxied(bad) as two:
        until(lambda: two.status("web", "web-1") == "DOWN" and "L4OK" in one.say("show stat"))
        both = detector(edge={"socket": [str(one.socket), str(two.socket)]})
        # Where the bad one is silent for a moment the good one's word is all that there is.
        seen = looked_past(both, "LB-SILENT", "LB-UP")
        assert (seen.code, seen.outcome) == ("LB-SPLIT", WARN)
        assert "is UP" in seen.detail
        assert "is DOWN" in seen.detail
        one.freeze()
        # The other one may be held up for longer than that as well: not always.
        seen = looked_past(both, "LB-SILENT", "LB-TIMEOUT", deadline_s=1)
        assert (seen.code, seen.outcome) == ("LB-DOWN", FAIL)
        two.freeze()
        (seen,) = look(both, node("web-1"), deadline_s=1)
        assert (seen.code, seen.outcome) == ("LB-TIMEOUT", UNKNOWN)


# --- which balancer ---


def test_a_policy_names_what_the_operator_has(proxy: Proxy) -> None:
    one, two = {"socket": str(proxy.socket)}, {"socket": "/no/such/socket"}
    for which, asked, said in (
        (detector(), mode(), "there is no balancer here"),
        (
            detector(edge=one, core=two),
            mode(),
            "options.balancer is missing: name one of core, edge",
        ),
        (detector(edge=one), mode(balancer="rim"), "there is no 'rim' here; there is edge"),
    ):
        assert said in which.misfit(asked)
        (seen,) = asyncio.run(which.check([node("web-1")], asked, deadline_s=60))
        assert (seen.code, seen.outcome) == ("LB-ERROR", UNKNOWN)
        assert said in seen.detail
    for which, asked in (
        (detector(edge=one), mode()),
        (detector(edge=one, core=two), mode(balancer="edge")),
    ):
        assert which.misfit(asked) == ""
        (seen,) = asyncio.run(which.check([node("web-1")], asked, deadline_s=60))
        assert seen.code == "LB-UP"


# --- which pool, where the policy names none ---


def looked_for(which: LoadBalancerDetector, *nodes: Target) -> Sequence[str]:
    return [f"{one.code}: {one.detail}" for one in look(which, *nodes, pool="")]


def test_the_backend_with_the_nodes_addresses_is_found(
    way: LoadBalancerDetector, servers: Sequence[Web]
) -> None:
    here = [node(f"n{n}", node_ip="127.0.0.1", port=servers[n].port) for n in (1, 2)]
    assert way.misfit(mode("")) == ""
    # The backend `other` has a server of that name: names are not what is looked for.
    first, second, third = looked_for(way, *here, node("web-1"))
    assert first.startswith(
        "LB-UP: edge/web, found by the nodes' addresses: server web-2 is UP, L7OK"
    )
    assert second.startswith("LB-UP: ")
    assert third.startswith("LB-UP: ")


def test_it_is_found_once_and_asked_ever_after(proxy: Proxy, servers: Sequence[Web]) -> None:
    one = node("a", node_ip="127.0.0.1", port=servers[1].port)
    two = node("b", node_ip="127.0.0.1", port=servers[2].port)
    with counting(proxy) as relay:
        which = detector(edge={"socket": f"127.0.0.1:{relay.port}"})
        listing, asking = b"show stat -1 6 -1\n", b"show stat web 6 -1\n"
        looked_for(which, one)
        assert relay.asked == [listing, asking]
        looked_for(which, one)
        # Another cluster, a moment later.
        looked_for(which, two)
        assert relay.asked == [listing, asking, asking, asking]


def test_what_is_not_clear_is_unknown_and_said(servers: Sequence[Web]) -> None:
    one, two, _ = (f"127.0.0.1:{web.port}" for web in servers)
    text = (
        f"backend web\n    server a {one} check\n    server b {two} check\n"
        f"backend admin\n    server a {one} check\n"
    )
    here = [node(f"n{n}", node_ip="127.0.0.1", port=web.port) for n, web in enumerate(servers)]
    nobody = node("x", node_ip="127.0.0.1", port=9)
    with proxied(text) as proxy:
        which = by_socket(proxy)
        (said,) = looked_for(which, here[0])
        assert said.startswith("LB-AMBIGUOUS: edge: 2 pools have the nodes' addresses: admin, web;")
        (said,) = looked_for(which, nobody)
        assert said.startswith("LB-NO-POOL: edge: none of its 2 pools has a node's address")
        said, _ = looked_for(which, here[1], nobody)
        assert said.startswith("LB-NO-POOL: edge: pool web has the addresses of 1 of 2 nodes only")
        (said,) = looked_for(which, node("no-address"))
        assert said.startswith("LB-NO-POOL: edge: no node has an address to find a pool by")


def among(which: LoadBalancerDetector, cluster: Sequence[Target], *nodes: Target) -> Sequence[str]:
    async def whole() -> Sequence[Target]:
        return cluster

    found = asyncio.run(which.check_among(nodes, mode(""), whole=whole, deadline_s=60))
    return [f"{one.code}: {one.detail}" for one in found]


def test_a_node_alone_finds_no_pool_of_its_own(servers: Sequence[Web]) -> None:
    one, two, three = (f"127.0.0.1:{web.port}" for web in servers)
    text = f"backend web\n    server a {one} check\n    server b {two} check\n"
    here = [
        replace(node(f"n{n}", node_ip="127.0.0.1", port=web.port), cluster_id=ClusterId("c"))
        for n, web in enumerate(servers)
    ]
    with proxied(f"{text}backend alien\n    server a {three} check\n") as proxy:
        # As another engine's executor, which has not polled.
        (said,) = looked_for(by_socket(proxy), here[2])
        assert said.startswith("LB-NO-POOL: edge: which nodes the cluster has is not known here;")
        assert said.endswith("name the pool in the policy")
        (said,) = among(by_socket(proxy), here[:2], here[2])
        assert said.startswith("LB-NO-POOL: edge: which nodes"), "it is none of those"
        (said,) = among(by_socket(proxy), here, here[2])
        assert said.startswith("LB-AMBIGUOUS: edge: 2 pools have the nodes' addresses: alien, web;")
    with proxied(text) as proxy:
        until(lambda: proxy.passes("web", "a", "b"))
        which = by_socket(proxy)
        (said,) = among(which, here, here[0])
        assert said.startswith("LB-UP: edge/web, found by the nodes' addresses: ")
        # What a whole cluster has found holds for each of its nodes.
        assert looked_for(which, here[1])[0].startswith("LB-UP: edge/web, found")


def test_where_there_are_several_projects_none_finds_a_pool(
    proxy: Proxy, servers: Sequence[Web]
) -> None:
    here = node("a", node_ip="127.0.0.1", port=servers[1].port)
    ours, theirs = replace(here, project="default"), replace(here, project="p")
    refused = "LB-NO-POOL: edge: whether its pools are of the nodes' project is not known;"
    which = by_socket(proxy)
    assert looked_for(which, ours)[0].startswith("LB-UP: edge/web, found")
    (said,) = looked_for(which, theirs)
    assert said.startswith(refused)
    assert "web" not in said
    # Who else is here may have been seen by what is watched, and what was found holds no more.
    assert looked_for(which, ours)[0].startswith(refused)
    assert look(which, theirs, pool="web")[0].code == "LB-UP", "but the policy may name it"


# --- answers that are none ---


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(b"", "it says 'nothing'", id="nothing"),
        pytest.param(b"Permission denied\n\n", "it says 'Permission denied'", id="refused"),
        pytest.param(b"# pxname,svname,status,type\nweb,web-1,DOWN,2\n", "cut short", id="no end"),
        pytest.param(
            b"# pxname,svname,status,type\nweb,web-1,DO\n\n", "cut short", id="half a row"
        ),
        pytest.param(b"# pxname,svname\nweb,web-1\n\n", "lacks one of", id="columns"),
        pytest.param(b'# pxname,svname,status,type\nweb,"web\n\n', "not CSV", id="quotes"),
    ],
)
def test_what_is_no_answer_is_unknown(answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.recv(4096)
                try:
                    caller.sendall(answer)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        with structlog.testing.capture_logs():
            (seen,) = look(
                detector(edge={"socket": f"127.0.0.1:{listener.getsockname()[1]}"}), node("web-1")
            )
        thread.join()
    assert (seen.code, seen.outcome) == ("LB-ERROR", UNKNOWN)
    assert said in seen.detail


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            caller, _ = listener.accept()
            with caller, suppress(OSError):
                while True:
                    caller.sendall(b"x" * 1_000_000)

        thread = threading.Thread(target=serve)
        thread.start()
        (seen,) = look(
            detector(edge={"socket": f"127.0.0.1:{listener.getsockname()[1]}"}),
            node("web-1"),
        )
        thread.join()
    assert (seen.code, seen.outcome) == ("LB-ERROR", UNKNOWN)
    assert "more than 16777216 bytes" in seen.detail
