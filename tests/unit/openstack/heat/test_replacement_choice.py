"""Which members are marked, and which never: what Heat would answer with yes and do otherwise."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.heat_stack.api.documents import Link, Resource
from yaffle.drivers.profiles.heat_stack.operations.replacement_choice import (
    Refusal,
    chosen,
    lost,
    to_mark,
)
from yaffle.drivers.profiles.heat_stack.status.members import Member, Seen, judge

SERVER = "OS::Nova::Server"
OFF = Seen(up=False, words="status SHUTOFF")
RUNS = Seen(up=True, words="status ACTIVE")


def member(
    name: str,
    seen: Seen | None = RUNS,
    *,
    parent: str | None = None,
    status: str = "CREATE_COMPLETE",
    physical: str = "",
    nested: bool = False,
) -> Member:
    links = [Link(rel="stack", href=f"http://h/v1/p/stacks/{parent or 'root'}/1")]
    links += [Link(rel="nested", href="x")] if nested else []
    resource = Resource(
        name=name,
        type="OS::Heat::ResourceGroup" if nested else SERVER,
        status=status,
        physical_id=physical or f"id-{parent}-{name}",
        parent=parent,
        links=links,
    )
    return judge(resource, None if nested else seen)


GROUP = member("group", nested=True)
A0, A1 = member("0", parent="a"), member("1", OFF, parent="a")
B0, WEB = member("0", parent="b"), member("web")
ALL = [GROUP, A0, A1, B0, WEB]


def test_those_that_failed_are_chosen_unless_others_are_named() -> None:
    assert chosen(ALL, []) == [A1]
    assert chosen(ALL, ["web", "a/0", "id-b-0", "web"]) == [WEB, A0, B0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("nope", "no member 'nope'; it has group, a/0", id="none"),
        pytest.param("0", "2 members are called '0': a/0, b/0", id="several"),
    ],
)
def test_a_name_has_to_be_one_members(name: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        chosen(ALL, [name])


def test_a_member_is_marked_in_the_very_stack_that_it_is_in() -> None:
    (resource,) = to_mark([A1])
    assert (resource.stack, resource.name) == ("a/1", "1")


def test_what_is_marked_already_is_not_marked_again() -> None:
    assert to_mark([member("x", status="CHECK_FAILED")]) == []
    assert to_mark([member("g", status="CHECK_FAILED", nested=True)]) == []


@pytest.mark.parametrize(
    ("one", "why"),
    [
        pytest.param(GROUP, "name the members", id="a stack of its own"),
        pytest.param(member("x", status="INIT_COMPLETE"), "skip it for ever", id="never made"),
        pytest.param(member("x", status="DELETE_FAILED"), "ignores the mark", id="being deleted"),
        pytest.param(member("x", status="UPDATE_IN_PROGRESS"), "holds it", id="locked"),
    ],
)
def test_what_heat_must_not_be_told(one: Member, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        to_mark([WEB, one])


def test_a_server_on_a_lost_host_is_not_replaced() -> None:
    stuck = Seen(up=False, words="status ERROR", host="cmp1", host_lost=True)
    assert "host cmp1" in lost([A1, member("x", stuck)])
    assert lost([A1]) == ""
    never_placed = Seen(up=False, words="status ERROR", host="", host_lost=True)
    assert lost([member("x", never_placed)]) == ""
