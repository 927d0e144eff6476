"""Which nodes an event is about: the backend's id, then our mark, never another copy."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from tests.contract.lifecycle.stage import target

from yaffle.drivers.detectors.lifecycle.channel_health import ChannelHealth
from yaffle.drivers.detectors.lifecycle.events import EVENTS, Subject
from yaffle.drivers.detectors.lifecycle.messages import Heard
from yaffle.drivers.detectors.lifecycle.node_index import Roster
from yaffle.drivers.detectors.lifecycle.watch import Node, Watch


def node(number: int, **changes: object) -> Node:
    watch = cast("Watch", None)
    return Node(watch=watch, target=replace(target(number), **changes))  # type: ignore[arg-type]


def heard(
    ident: str, node_id: str = "", host: str = "", subject: Subject = Subject.SERVER
) -> Heard:
    return Heard(event="e", word="", subject=subject, ident=ident, node_id=node_id, host=host)


def test_the_backends_id_comes_first() -> None:
    roster, a, b = Roster(), node(0), node(1)
    roster.add([a, b])
    assert list(roster.about(heard("s1", node_id="n0"))) == [b]


def test_our_mark_names_a_node_whose_copy_is_not_known_yet() -> None:
    roster, a = Roster(), node(0, physical_id="")
    roster.add([a])
    assert list(roster.about(heard("s9", node_id="n0"))) == [a]


def test_another_copy_is_not_the_one_that_we_watch() -> None:
    """A forged or leftover copy that bears the mark says nothing of the node."""
    roster = Roster()
    roster.add([node(0)])
    assert list(roster.about(heard("s9", node_id="n0"))) == []


def test_a_host_is_all_its_nodes_and_those_of_which_it_is_not_known() -> None:
    roster = Roster()
    there, elsewhere, unknown = node(0, attributes={"host": "cmp1"}), node(1), node(2)
    elsewhere.host = "cmp2"
    roster.add([there, elsewhere, unknown])
    about = list(roster.about(heard("", host="cmp1", subject=Subject.SERVICE)))
    assert about == [there, unknown]
    there.host = "cmp2"
    assert list(roster.about(heard("", host="cmp1", subject=Subject.SERVICE))) == [unknown]


def test_what_is_removed_is_not_found_and_the_same_copy_may_be_watched_twice() -> None:
    roster, one, other = Roster(), node(0), node(0)
    roster.add([one, other])
    assert list(roster.about(heard("s0"))) == [one, other]
    roster.remove([one])
    assert list(roster.about(heard("s0"))) == [other]
    roster.remove([one, other])
    assert not list(roster.about(heard("s0")))
    assert len(roster) == 0


@pytest.mark.parametrize("event", EVENTS)
def test_every_row_says_who_sends_it(event: str) -> None:
    assert EVENTS[event].senders


def test_listening_is_to_hear_every_source() -> None:
    gaps: list[int] = []
    channels = ChannelHealth(["a", "b"], lambda: gaps.append(1))
    first, second, third = object(), object(), object()
    assert not channels.listening
    channels.heard("a", first)
    assert not channels.listening
    channels.heard("b", second)
    assert channels.listening
    assert channels.era == len(gaps) == 2
    channels.heard("a", third)
    channels.lost("a", first)
    assert channels.listening, "an old connection that ends late takes nothing away"
    channels.lost("a", third)
    assert not channels.listening
    assert not ChannelHealth([], lambda: None).listening
