"""A line may bring one look forward; it may not decide, complete a run by repetition, or flood us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.detectors.balancer_stage import (
    DOWN,
    MAINT,
    MODE,
    NODES,
    SOON_S,
    UP,
    WEB,
    Edge,
    Scene,
    node,
    place,
    play,
)

from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.drivers.detectors.load_balancer import event_checks as module
from yaffle.drivers.detectors.load_balancer.event_checks import GAP_S, LOOKS, OLD_S, SERVERS_MAX
from yaffle.drivers.detectors.load_balancer.pool import Listed, Member
from yaffle.drivers.detectors.load_balancer.pool_discovery import indexed
from yaffle.model.health import Observation, Outcome
from yaffle.model.policy import DetectionMode
from yaffle.ports import DriverContext
from yaffle.testing.clock import VirtualClock
from yaffle.testing.loop import run_virtual


def test_a_line_is_a_look_at_the_one_it_names() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words |= {"n1": DOWN, "n2": DOWN}
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)

    scene = play(body)
    assert scene.brief == [("n1", DOWN, True)]
    assert scene.edge.asked == ["web"]


@pytest.mark.parametrize(
    ("text", "trusted"),
    [
        pytest.param("Server web/n1 is DOWN. x", False, id="anybody may have sent it"),
        pytest.param("Server web/n1 is UP. x", True, id="it says something else"),
        pytest.param("Health check for server web/n1 failed, x", True, id="of one check"),
    ],
)
def test_only_a_down_from_the_balancer_itself_is_enough(text: str, trusted: bool) -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.hear(text, trusted=trusted)
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, False)]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_lie_is_not_believed(trusted: bool) -> None:
    async def body(scene: Scene) -> None:
        scene.hear("Server web/n1 is DOWN. x", trusted=trusted)
        await asyncio.sleep(SOON_S)

    scene = play(body)
    assert scene.brief == []
    assert scene.edge.asked == ["web"]


def test_no_run_of_failures_is_completed_by_telling_it_again() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        for _ in range(3):
            scene.hear("Server web/n1 is DOWN. x", trusted=False)
            await asyncio.sleep(GAP_S + SOON_S)

    scene = play(body)
    assert scene.brief == [("n1", DOWN, False)]
    assert len(scene.edge.asked) == 3


def test_what_a_poll_has_told_is_no_news() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        await scene.poll()
        scene.hear("Server web/n1 is DOWN. x", trusted=False)
        await asyncio.sleep(SOON_S)
        scene.edge.words["n1"] = UP
        await asyncio.sleep(GAP_S)
        scene.hear("Server web/n1 is UP. x", trusted=False)
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", UP, False)]


def test_a_thousand_lines_are_one_look_and_one_after_it() -> None:
    async def body(scene: Scene) -> None:
        until = asyncio.get_running_loop().time() + GAP_S + SOON_S
        while asyncio.get_running_loop().time() < until:
            for _ in range(20):
                scene.hear("Server web/n2 is DOWN. x")
            await asyncio.sleep(0.02)

    scene = play(body)
    assert len(scene.edge.asked) == 2
    assert scene.hearing.counts["woke"] > 200


def test_what_nobody_watches_is_counted_and_asked_of_nobody() -> None:
    async def body(scene: Scene) -> None:
        for text in ("Server wbe/n1 is DOWN. x", "Server web/n9 is DOWN. x", "hello"):
            scene.hear(text)
        scene.hearing.hear("rim", b"Server web/n1 is DOWN. x", trusted=True)
        await asyncio.sleep(SOON_S)

    scene = play(body)
    assert (scene.edge.asked, scene.brief) == ([], [])
    counts = scene.hearing.counts
    assert (counts["of_nobody"], counts["no_event"], counts["woke"]) == (3, 1, 0)


def test_names_that_nobody_knows_yet_are_bounded() -> None:
    edge = Edge(fault="LB-ERROR")

    async def body(scene: Scene) -> None:
        for number in range(SERVERS_MAX + 500):
            scene.hear(f"Server web/x{number} is DOWN. x")
        assert len(scene.hearing._due[WEB]) == SERVERS_MAX
        await asyncio.sleep(SOON_S)

    scene = play(body, edge)
    assert scene.edge.asked == ["web"]
    assert scene.brief == []


@pytest.mark.parametrize("word", [MAINT, "LB-TIMEOUT"])
def test_what_is_unknown_is_left_to_polls(word: str) -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = MAINT
        scene.edge.fault = word if word == "LB-TIMEOUT" else ""
        scene.hear("Server web/n1 is going DOWN for maintenance. x")
        await asyncio.sleep(SOON_S)

    assert play(body).brief == []


def test_a_balancer_that_does_not_answer_is_asked_again() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.edge.fault = "LB-TIMEOUT"
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)
        assert scene.brief == []
        scene.edge.fault = ""
        await asyncio.sleep(5 * GAP_S)

    scene = play(body)
    assert scene.brief == [("n1", DOWN, True)]
    assert len(scene.edge.asked) == 2, "and not once more after that"


def test_a_balancer_that_never_answers_is_left_to_polls() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.fault = "LB-TIMEOUT"
        for told in (1, 2):
            scene.hear("Server web/n1 is DOWN. x")
            await asyncio.sleep(10 * GAP_S)
            assert len(scene.edge.asked) == told * LOOKS
        assert not scene.hearing._in_vain

    play(body)


def test_a_pool_that_the_balancer_has_not_is_asked_for_once() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.fault = "LB-NO-POOL"
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(5 * GAP_S)

    assert play(body).edge.asked == ["web"]


def test_an_old_line_is_not_enough_by_being_asked_about_again() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.edge.fault, scene.edge.takes_s = "LB-TIMEOUT", OLD_S - GAP_S / 2
        scene.hearing.forget("w")
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(OLD_S)
        scene.edge.fault, scene.edge.takes_s = "", 0.0
        await asyncio.sleep(2 * GAP_S)

    assert play(body).brief == [("n1", DOWN, False)]


def test_after_blindness_an_old_line_is_not_enough_and_an_old_answer_is_none() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.edge.takes_s = 0.3
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(0.15)
        scene.hearing.forget("w")
        await asyncio.sleep(SOON_S)
        assert scene.edge.asked == ["web"]
        assert scene.brief == []
        scene.edge.takes_s = 0.0
        await asyncio.sleep(GAP_S)
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, False)]


def test_a_poll_that_began_later_knows_better() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.edge.takes_s = 0.4
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(0.2)
        scene.edge.words["n1"], scene.edge.takes_s = UP, 0.0
        await scene.poll()
        await asyncio.sleep(SOON_S)

    assert play(body).brief == []


def test_who_is_watched_no_more_is_told_no_more() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        scene.edge.takes_s = 0.2
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(0.15)
        scene.hearing.ignore("w")
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)

    scene = play(body)
    assert scene.brief == []
    assert scene.hearing.listeners() == []


def test_targets_that_change_are_listened_for_at_once() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words |= {"n1": DOWN, "n3": DOWN}
        scene.watch(NODES[:2])
        scene.hear("Server web/n1 is DOWN. x")
        scene.hear("Server web/n3 is DOWN. x")
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, True)]


def test_a_look_at_one_node_before_an_act_is_no_poll() -> None:
    async def body(scene: Scene) -> None:
        scene.edge.words["n1"] = DOWN
        await scene.poll(NODES[:1])
        scene.hear("Server web/n1 is DOWN. x", trusted=False)
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, False)]


def test_it_is_noticed_that_nothing_is_ever_heard() -> None:
    async def body(scene: Scene) -> None:
        await asyncio.sleep(0.05)
        (listener,) = scene.hearing.listeners()
        assert (listener.fault, listener.detail) == ("", "0 lines heard")
        scene.edge.words["n1"] = DOWN
        await scene.poll()
        (listener,) = scene.hearing.listeners()
        assert listener.fault == "1 changes were found by polls and no line was ever heard"
        assert "local0 notice" in listener.advice
        scene.hear("Server web/n1 is DOWN. x")
        (listener,) = scene.hearing.listeners()
        assert (listener.fault, listener.detail) == ("", "1 lines heard")
        for word in (UP, DOWN, UP):
            scene.edge.words["n1"] = word
            await scene.poll()
        (listener,) = scene.hearing.listeners()
        assert listener.fault == "3 changes were found by polls since the last line"

    play(body)


def test_a_watch_that_begins_anew_finds_its_places_free() -> None:
    async def body(scene: Scene) -> None:
        await asyncio.sleep(0.05)
        for _ in range(3):
            scene.hearing.ignore("w")
            scene.watch()
            await asyncio.sleep(0.05)
            (listener,) = scene.hearing.listeners()
            assert not listener.fault

    play(body)


def test_a_bug_does_not_end_listening() -> None:
    async def body(scene: Scene) -> None:
        def broken(_: Sequence[Observation]) -> None:
            raise LookupError("a bug")

        scene.edge.words["n1"] = DOWN
        scene.hearing.listen("w", NODES, MODE, 600.0, broken, WEB)
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)
        scene.watch()
        await asyncio.sleep(module.AGAIN_S + SOON_S)
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, True)]


def test_a_bug_in_the_moment_of_the_end_begins_nothing_anew() -> None:
    async def body(scene: Scene) -> None:
        def broken(_: Sequence[Observation]) -> None:
            scene.hearing.ignore("w")
            raise LookupError("a bug")

        scene.edge.words["n1"] = DOWN
        scene.hearing.listen("w", NODES, MODE, 600.0, broken, WEB)
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(module.AGAIN_S + 2 * SOON_S)
        assert not scene.hearing.listeners(), "nobody is listened for"

    play(body)


def test_every_word_is_counted_from_the_beginning() -> None:
    scene = play(lambda _: asyncio.sleep(0))
    assert set(scene.hearing.counts) == set(module.COUNTS)


def test_outcomes_that_are_a_change() -> None:
    change = module._is_change
    ups, down = (Outcome.PASS, Outcome.WARN), Outcome.FAIL
    assert all(change(up, down) and change(down, up) for up in ups)
    assert not any(change(one, other) for one in ups for other in (*ups, Outcome.UNKNOWN))
    assert not change(None, down)
    assert not change(down, down)


def test_a_pool_that_only_a_poll_can_tell_is_listened_for_from_then_on() -> None:
    async def body(scene: Scene) -> None:
        scene.hearing.ignore("w")
        scene.hearing.listen("w", NODES, MODE, 600.0, scene.told.extend, None)
        scene.edge.words["n1"] = DOWN
        scene.hear("Server web/n1 is DOWN. x")
        assert scene.hearing.counts["of_nobody"] == 1
        scene.edge.words["n1"] = UP
        await scene.poll()
        scene.edge.words["n1"] = DOWN
        scene.hear("Server web/n1 is DOWN. x")
        await asyncio.sleep(SOON_S)

    assert play(body).brief == [("n1", DOWN, True)]


def test_a_pool_that_is_theirs_no_more_for_certain_wakes_nobody() -> None:
    one = replace(node("n1"), attributes={"node_ip": "10.0.0.1"})
    mode = DetectionMode(key=MODE.key, type=MODE.type)
    server = Member(name="s1", address="10.0.0.1:80", code=UP, words=UP)
    clock = VirtualClock()

    async def seen(which: LoadBalancerDetector, *pools: str) -> str:
        """Poll while the balancer has these pools with the node's address; it is never reached."""
        listed = [Listed(pool=name, name=name, members=[server]) for name in pools]
        which._balancers._lists["edge"] = clock.monotonic_s(), indexed(listed)
        which._balancers._finds.drop("edge", [one])
        return (await which.check([one], mode, deadline_s=5))[0].code

    async def story(path: str) -> None:
        edge = {"type": "haproxy", "socket": "/no", "events": path}
        which = LoadBalancerDetector(
            DriverContext(clock=clock, state_dir=Path(), settings={"balancers": {"edge": edge}})
        )
        which.listen("w", [one], mode, interval_s=600.0, sink=lambda _: None)
        assert await seen(which, "blue") == "LB-ERROR"
        which._hearing.hear("edge", b"<129>Server blue/s1 is DOWN. x", trusted=True)
        assert which.counts["woke"] == 1
        assert await seen(which, "blue", "green") == "LB-AMBIGUOUS"
        which._hearing.hear("edge", b"<129>Server blue/s1 is DOWN. x", trusted=True)
        assert (which.counts["woke"], which.counts["of_nobody"]) == (1, 1)
        assert await seen(which, "green") == "LB-ERROR"
        which._hearing.hear("edge", b"<129>Server green/s1 is DOWN. x", trusted=True)
        assert which.counts["woke"] == 2
        which.ignore("w")

    with place() as path:
        run_virtual(lambda: story(path))


def test_however_many_pools_are_told_of_a_balancer_is_asked_once_a_second() -> None:
    async def body(scene: Scene) -> None:
        for number in range(5):
            pool, target = f"p{number}", node(f"x{number}")
            scene.hearing.listen(pool, [target], MODE, 600.0, scene.told.extend, ("edge", pool))
        for number in range(5):
            scene.hear(f"Server p{number}/x is DOWN. x")
        await asyncio.sleep(SOON_S)
        assert len(scene.edge.asked) == 1
        await asyncio.sleep(5 * GAP_S + SOON_S)
        assert sorted(scene.edge.asked) == [f"p{number}" for number in range(5)]
        for number in range(5):
            scene.hearing.ignore(f"p{number}")

    play(body)
