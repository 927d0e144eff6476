"""Work that goes on: waited for, left alone, cancelled, interrupted; and what is told of it."""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Iterator
from itertools import count

import pytest
from tests.functional.cli.support import (
    Running,
    Server,
    deaf,
    let_go,
    profile_document,
    stubborn_document,
    swept,
    wait_for,
)

from yaffle.cli.client.clustering import Clustering
from yaffle.cli.client.native import Api
from yaffle.cli.client.transport import Wire


@pytest.fixture(scope="module")
def plain(shop: Server) -> Iterator[str]:
    """A profile of its own, named as the mark that its processes carry."""
    mark = f"plain-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=profile_document(mark))
        yield mark


@pytest.fixture(scope="module")
def slow(shop: Server) -> Iterator[str]:
    """A profile whose nodes go when the test lets them."""
    mark = f"slow-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=stubborn_document(mark))
        yield mark


def test_without_waiting_the_action_is_named_and_can_be_followed(shop: Server, slow: str) -> None:
    words = ("cluster", "create", "later", "--profile", slow, "--size", "2", "--no-wait")
    begun = shop.ok(*words, "--json").json
    assert begun["cluster"]["status"] == "INIT"
    assert begun["action"]["action"] == "CLUSTER_CREATE"
    ident = begun["action"]["id"]
    assert shop.ok("action", "wait", ident).out == (
        f"action {ident[:8]}: CLUSTER_CREATE succeeded\n"
    )
    wait_for(lambda: deaf(slow))
    said = shop.ok("cluster", "delete", "later", "--no-wait").out
    found = re.fullmatch(
        r"cluster later is being deleted; follow it: yaffle (action wait \w+)\n", said
    )
    assert found, said
    waiting = Running(*found[1].split(), env={"YAFFLE_STATE_DIR": str(shop.state_dir)})
    waiting.line("0 of 2 parts done")
    let_go(slow)
    assert waiting.end() == 0
    assert re.search(r"action \w+: \d of 2 parts done", waiting.text), waiting.text
    assert shop.cli("cluster", "show", "later").code == 3


def test_ctrl_c_ends_the_waiting_and_says_how_to_follow(shop: Server, slow: str) -> None:
    shop.ok("cluster", "create", "long", "--profile", slow, "--size", "1")
    wait_for(lambda: deaf(slow))
    env = {"YAFFLE_STATE_DIR": str(shop.state_dir)}
    deleting = Running("cluster", "delete", "long", env=env)
    deleting.line("0 of 1 parts done")
    deleting.signal(signal.SIGINT)
    assert deleting.end() == 130
    let_go(slow)
    found = re.search(
        r"cluster long: it goes on without you, see `yaffle (action wait \w+)`", deleting.text
    )
    assert found, deleting.text
    assert "Traceback" not in deleting.text
    assert "CLUSTER_DELETE succeeded" in shop.ok(*found[1].split()).out


def test_actions_are_listed_shown_and_their_ends_are_final(shop: Server, plain: str) -> None:
    shop.ok("cluster", "create", "told", "--profile", plain, "--size", "1")
    text = shop.ok("action", "list", "--cluster", "told").out
    assert "CLUSTER_CREATE" in text
    assert "NODE_CREATE" in text
    words = ("action", "list", "--cluster", "told", "--action", "node_create")
    [part] = shop.ok(*words, "--status", "succeeded", "--json").json["actions"]
    assert part["cause"].startswith("Derived Action")
    assert "NODE_CREATE" in shop.ok("action", "list", "--node", "told-1").out
    shown = shop.ok("action", "show", part["id"][:8]).out
    assert "Action completed successfully." in shown
    assert "took" in shown
    late = shop.cli("action", "cancel", part["id"])
    assert late.code == 4, late
    assert shop.cli("action", "show", str(uuid.uuid4())).code == 3
    assert shop.cli("action", "list", "--status", "purple").code == 2
    shop.ok("cluster", "delete", "told")


def test_a_cancelled_action_is_a_failure_for_whoever_waits(shop: Server, plain: str) -> None:
    # Without an engine that may heal, a recovery waits, and can be taken back.
    shop.ok("cluster", "create", "back", "--profile", plain, "--size", "1")
    shop.ok("stop", "--all", "--reason", "to have time to cancel", "--for", "5m")
    try:
        words = ("node", "recover", "back-1", "--operation", "REBOOT", "--no-wait", "--json")
        action = shop.ok(*words).json["action"]["id"]
        assert "cancelled" in shop.ok("action", "cancel", action, "--force").out
        done = shop.cli("action", "wait", action)
        assert done.code == 1
        assert "NODE_RECOVER cancelled" in done.err
    finally:
        shop.ok("stop", "--lift")
    shop.ok("cluster", "delete", "back")


def test_events_are_listed_shown_and_followed(shop: Server, plain: str) -> None:
    env = {"YAFFLE_STATE_DIR": str(shop.state_dir)}
    shop.ok("cluster", "create", "news", "--profile", plain, "--size", "0")
    following = Running("event", "follow", "--json", env=env)
    # It tells what comes after it has looked for the first time, which nobody sees.
    changes = (
        lambda n=n: shop.ok("cluster", "update", "news", "--metadata", f"n={n}") for n in count()
    )
    wait_for(lambda: following.lines or (next(changes)() and None), every_s=0.2)
    event = json.loads(following.line('"news"'))
    assert event["otype"] == "CLUSTER"
    following.signal(signal.SIGINT)
    assert following.end() == 130

    listed = shop.ok("event", "list", "--cluster", "news", "--json").json["events"]
    assert {row["oname"] for row in listed} == {"news"}
    assert "CLUSTER_CREATE" in shop.ok("event", "list", "--cluster", "news").out
    latest = shop.ok("event", "list", "--sort", "timestamp:desc", "--limit", "1", "--json").json
    assert len(latest["events"]) == 1
    assert "news" in shop.ok("event", "show", listed[0]["id"]).out
    assert shop.cli("event", "list", "--level", "LOUD").code == 2
    assert shop.ok("event", "list", "--level", "critical").out == "no events\n"
    assert "web-1" in shop.ok("event", "list", "--node", "web-1").out
    shop.ok("cluster", "delete", "news")


class Interfered:
    """A wire on which something happens between the pages of a list."""

    def __init__(self, wire: Wire, between: list[tuple[str, str]]) -> None:
        self._wire = wire
        self._between = between
        self.pages = 0

    def ask(self, method, path, **more):  # type: ignore[no-untyped-def]
        answer = self._wire.ask(method, path, **more)
        if path[1:] == ("profiles",):
            self.pages += 1
            if self._between:
                self._wire.ask("DELETE", ("/v1", *self._between.pop(0)))
        return answer


def test_a_list_of_many_pages_is_whole(shop: Server) -> None:
    names = [f"page-{number}" for number in range(7)]
    for name in names:
        shop.ok("profile", "create", name, "-", given=profile_document("x"))
    card = json.loads((shop.state_dir / "server.json").read_text())
    with Wire(card["url"]) as wire:

        def listed(page: int, *between: tuple[str, str], **more: int) -> list[str]:
            interfered = Interfered(wire, list(between))
            found = Clustering(interfered, page=page).listed("profiles", {}, **more)  # type: ignore[arg-type]
            assert interfered.pages > 1
            shown = [str(row["name"]) for row in found]
            assert len(shown) == len(set(shown))
            return [name for name in shown if name.startswith("page-")]

        everything = [str(r["name"]) for r in Clustering(wire).listed("profiles", {})]
        before = everything.index("page-0")
        assert listed(2) == names
        assert listed(3) == names
        assert listed(2, limit=before + 3) == names[:3]
        # The object after which the next page would begin goes away in the meantime.
        assert listed(before + 2, ("profiles", "page-1")) == names
        shop.ok("profile", "create", "page-1", "-", given=profile_document("x"))
    for name in names:
        shop.ok("profile", "delete", name)


def test_a_server_of_another_kind_is_told_from_ours(shop: Server) -> None:
    card = json.loads((shop.state_dir / "server.json").read_text())
    with Api(card["url"]) as api:
        assert api.v1.get("build-info")["build_info"]
