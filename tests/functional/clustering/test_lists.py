"""Lists: page after page nothing is missed or told twice, and a long list hurts nobody else."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.api.live import Live, running
from tests.functional.clustering.rows import BORN_US, add_nodes
from tests.functional.clustering.senlin import Senlin

STATUSES = ("ACTIVE", "ERROR", "WARNING")


@pytest.fixture(scope="module")
def many(senlin: Senlin) -> Senlin:
    """Thirty nodes, born five at a time, a third of them made, in three states."""
    profile = senlin.profile("p")
    add_nodes(
        senlin,
        profile,
        [
            {
                "name": f"n{place % 7}",
                "status": STATUSES[place % 3],
                "index": place % 4,
                "created_us": BORN_US + place // 5,
                "made_us": None if place % 3 else BORN_US + place // 6,
                "updated_us": None if place % 2 else BORN_US - place,
            }
            for place in range(30)
        ],
    )
    return senlin


def ids(senlin: Senlin, query: str) -> list[str]:
    return [node["id"] for node in senlin.call("GET", f"/nodes?{query}")["nodes"]]


def pages(senlin: Senlin, query: str, size: int) -> Iterator[list[str]]:
    """Ask as openstacksdk does: by marker, until a page is empty."""
    marker = ""
    for _ in range(100):
        page = ids(senlin, f"{query}&limit={size}{marker}")
        if not page:
            return
        assert len(page) <= size
        yield page
        marker = f"&marker={page[-1]}"
    raise AssertionError("no page was the last one")


SORTS = [
    "",
    "sort=name",
    "sort=name:desc",
    "sort=created_at",
    "sort=created_at:desc",
    "sort=updated_at:desc,name",
    "sort=status,created_at:desc,index",
    "sort=index:desc,updated_at:asc",
    "status=ACTIVE&sort=created_at",
]


@pytest.mark.parametrize("query", SORTS)
@pytest.mark.parametrize("size", [1, 4, 30])
def test_pages_make_the_whole(many: Senlin, query: str, size: int) -> None:
    whole = ids(many, query)
    assert len(set(whole)) == len(whole) == (10 if "status=" in query else 30)
    assert [ident for page in pages(many, query, size) for ident in page] == whole


def test_the_order_is_as_asked(many: Senlin) -> None:
    found = many.call("GET", "/nodes?sort=status,name:desc")["nodes"]
    keys = [(node["status"], [-ord(c) for c in node["name"]]) for node in found]
    assert keys == sorted(keys)
    made = [n["created_at"] for n in many.call("GET", "/nodes?sort=created_at")["nodes"]]
    assert made[:20] == [None] * 20
    assert made[20:] == sorted(made[20:])
    back = [n["created_at"] for n in many.call("GET", "/nodes?sort=created_at:desc")["nodes"]]
    assert back[10:] == [None] * 20
    assert back[:10] == sorted(back[:10], reverse=True)


def test_pages_survive_what_comes_and_goes(many: Senlin) -> None:
    profile = many.call("GET", "/profiles/p")["profile"]["id"]
    query = "sort=name"
    before = set(ids(many, query))
    seen: list[str] = []
    gone = {"id": str(uuid.uuid4()), "name": "n3-gone", "status": "ACTIVE"}
    add_nodes(many, profile, [gone])
    for page in pages(many, query, 4):
        seen += page
        # Before and after what was told already; and the very marker's neighbour vanishes.
        if len(seen) < 12:
            add_nodes(many, profile, [{"name": "n0-new"}, {"name": "n9-new"}])
        if str(gone["id"]) in page:
            many.started("DELETE", f"/nodes/{gone['id']}", {"force": True})
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


def test_a_marker_that_is_unknown_is_none(many: Senlin) -> None:
    assert ids(many, f"limit=3&marker={uuid.uuid4()}") == ids(many, "limit=3")


def test_a_filter_that_is_repeated_means_any_of_them(many: Senlin) -> None:
    both = set(ids(many, "status=ERROR&status=WARNING"))
    assert both == {*ids(many, "status=ERROR"), *ids(many, "status=WARNING")}
    assert ids(many, "status=ERROR&name=nothing") == []


def test_no_limit_no_page_and_none_at_all(many: Senlin) -> None:
    assert ids(many, "limit=0") == []
    assert len(ids(many, "limit=10000000000000000")) >= 30


SHAPE = "HTTPBadRequest"
WRONG = [
    ("limit=abc", "The value for limit must be an integer: 'abc'."),
    ("limit=-1", "Value must be >= 0 for field 'limit'."),
    ("marker=xyz", "The value for marker is not a valid UUID: 'xyz'."),
    ("sort=bogus", "Unsupported sort key 'bogus' for 'sort'."),
    ("global_project=maybe", "Invalid value 'maybe' specified for 'global_project'"),
    ("bogus=1", "Invalid parameter bogus"),
]


@pytest.mark.parametrize(("query", "message"), WRONG)
@pytest.mark.parametrize("noun", ["nodes", "clusters", "profiles", "policies", "actions", "events"])
def test_wrong_questions_are_refused(many: Senlin, noun: str, query: str, message: str) -> None:
    assert many.refused("GET", f"/{noun}?{query}") == (SHAPE, message)


CLOSED = [
    "nodes?status=BOGUS",
    "clusters?status=BOGUS",
    "actions?status=X",
    "actions?action=X",
    "events?level=LOUD",
    "events?otype=PROFILE",
]


@pytest.mark.parametrize("path", CLOSED)
def test_closed_words_are_checked(many: Senlin, path: str) -> None:
    assert many.refused("GET", f"/{path}")[0] == SHAPE


def test_directions_are_two(many: Senlin) -> None:
    told = many.refused("GET", "/nodes?sort=name:up")
    assert told == (SHAPE, "Unsupported sort dir 'up' for 'sort'.")


def test_levels_have_names(many: Senlin) -> None:
    many.done("POST", "/clusters", {"cluster": {"name": "c", "profile_id": "p"}})
    told = many.call("GET", "/events?level=INFO&level=WARN")["events"]
    assert {e["level"] for e in told} == {"INFO"}
    assert many.call("GET", "/events?level=WARNING&level=CRITICAL")["events"] == []
    assert all(e["timestamp"].endswith("+00:00") for e in told)


TRIES = 10
"""On a busy machine it is our own turns that are missing, of this thread or the other."""


def streamed(live: Live) -> tuple[list[Any], int]:
    """Return a long list, and how many others were answered while it came."""
    answered, coming, ended = 0, threading.Event(), threading.Event()

    def others() -> None:
        nonlocal answered
        with live.client() as client:
            coming.wait(60)
            while not ended.wait(0.02):
                client.get("/v1/build-info").raise_for_status()
                # Not the last one, which may have waited for the end.
                answered += not ended.is_set()

    thread = threading.Thread(target=others)
    thread.start()
    try:
        with live.client() as client, client.stream("GET", "/v1/nodes") as answer:
            assert answer.headers["Transfer-Encoding"] == "chunked"
            assert answer.headers["OpenStack-API-Version"] == "clustering 1.14"
            coming.set()
            answer.read()
    finally:
        ended.set()
        coming.set()
        thread.join()
    return answer.json()["nodes"], answered


def test_a_long_list_is_streamed_and_hurts_nobody(tmp_path: Path) -> None:
    """More than one reading of keys, and others are answered while it comes."""
    with running(tmp_path / "yaffle") as live:
        senlin = Senlin(live=live)
        profile = senlin.profile("p")
        count = 21_000
        add_nodes(senlin, profile, [{}] * count)
        for _ in range(TRIES):
            found, answered = streamed(live)
            assert [n["name"] for n in found] == [f"row-{place}" for place in range(count)]
            if answered >= 3:
                break
        assert answered >= 3, "others were answered meanwhile"
        most = senlin.call("GET", f"/nodes?limit={count - 500}")["nodes"]
        assert [n["id"] for n in most] == [n["id"] for n in found][: count - 500]
