"""A webhook needs no token: its URL is the secret, `V` the dialect, its action like any other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.rig import Answer, Api, action_of, check_html
from tests.acceptance.world import World

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def hook(world: World) -> Any:
    """A receiver that scales an empty cluster of its own out by one."""
    cluster = world.cluster(0, max_size=5)["id"]
    return world.receiver(cluster, params={"count": 1})


@pytest.fixture
def open_hook(world: World) -> Any:
    """One that leaves to its callers by how many."""
    return world.receiver(world.cluster(0, max_size=5)["id"])


def trigger(world: World, hook: Any, query: str, body: Any = None, **how: Any) -> Answer:
    given = () if body is None else (body,)
    how.setdefault("version", None)
    return world.api.ask("POST", f"/v1/webhooks/{hook['id']}/trigger{query}", *given, **how)


def desired(world: World, hook: Any) -> int:
    return int(world.api.get(f"clusters/{hook['cluster_id']}")["cluster"]["desired_capacity"])


def test_the_url_as_it_was_given(world: World, hook: Any) -> None:
    path = hook["channel"]["alarm_url"].removeprefix(world.api.root)
    answer = world.api.ask("POST", path, want=202, version=None)
    assert set(answer.json) == {"action"}
    action = world.api.ended(action_of(answer))
    assert (action["action"], action["target"]) == ("CLUSTER_SCALE_OUT", hook["cluster_id"])
    assert desired(world, hook) == 1


@pytest.mark.parametrize(
    ("query", "body", "version", "wanted"),
    [
        ("?V=2", None, None, 1),
        ("?V=2", {}, None, 1),
        ("?V=2", {"count": 2}, None, 2),
        ("?V=2", {"count": 2}, "1.14", 2),
        ("?V=1", None, None, 1),
        ("?V=1", {"params": {"count": 2}}, None, 2),
        ("?V=1", {"params": {"count": 2}}, "1.9", 2),
        ("?V=1", {"params": {}}, "1.9", 1),
        ("?V=2&count=3", None, None, 1),
    ],
)
def test_inputs(
    world: World, open_hook: Any, query: str, body: Any, version: str | None, wanted: int
) -> None:
    answer = trigger(world, open_hook, query, body, want=202, version=version)
    world.api.ended(answer)
    assert desired(world, open_hook) == wanted


def test_what_the_receiver_says_is_final(world: World, hook: Any) -> None:
    world.api.ended(trigger(world, hook, "?V=2", {"count": 3}, want=202))
    assert desired(world, hook) == 1


@pytest.mark.parametrize("query", ["", "?count=1", "?v=2"])
def test_without_v(world: World, hook: Any, query: str) -> None:
    answer = trigger(world, hook, query)
    check_html(answer, 400)
    assert "V query parameter is required in webhook trigger URL" in answer.text


@pytest.mark.parametrize("v", ["2", "1"])
def test_unknown(api: Api, v: str) -> None:
    for ident in ("nope", NOWHERE):
        answer = api.ask("POST", f"/v1/webhooks/{ident}/trigger?V={v}", version=None)
        assert answer.status == 404, answer


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b'"x"', b"12"])
def test_bodies_that_are_no_inputs(world: World, hook: Any, content: bytes) -> None:
    answer = trigger(world, hook, "?V=2", content=content)
    assert answer.status in {202, 400}, answer


@pytest.mark.parametrize("inputs", [{"count": -1}, {"count": "x"}, {"count": 0}, {"count": 99}])
def test_inputs_that_make_no_sense(world: World, open_hook: Any, inputs: Any) -> None:
    answer = trigger(world, open_hook, "?V=2", inputs)
    assert answer.status in {400, 202}, answer
    if answer.status == 202:
        world.api.ended(answer, want="FAILED")
    assert desired(world, open_hook) == 0


def test_a_prefix_or_a_name_is_not_the_secret(world: World, hook: Any) -> None:
    for ident in (hook["id"][:8], hook["name"]):
        answer = world.api.ask("POST", f"/v1/webhooks/{ident}/trigger?V=2", version=None)
        assert answer.status == 404, answer
    assert desired(world, hook) == 0


def test_a_flood_is_held_back_without_a_crash(world: World) -> None:
    cluster = world.cluster(0, max_size=2)["id"]
    hook = world.receiver(cluster, action="CLUSTER_CHECK")
    seen = {trigger(world, hook, "?V=2").status for _ in range(60)}
    assert seen <= {202, 409, 429}, seen
    assert 202 in seen
