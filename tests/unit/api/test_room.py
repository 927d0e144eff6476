"""Room for connections: who has been silent for longest goes, who is owed an answer stays."""

from __future__ import annotations

from dataclasses import dataclass

from yaffle.api.http.connection_limits import Limits, Room


@dataclass(eq=False)
class Guest:
    peer: str
    narrow: bool = False
    ended: bool = False

    def look(self, now_s: float) -> None:
        """Nothing is overdue."""

    def abort(self) -> None:
        self.ended = True


def test_the_silent_make_room_and_those_we_owe_an_answer_stay() -> None:
    room = Room(Limits(most=3, of_peer=3, reserved=1))
    busy, first, second, third = (Guest("a") for _ in range(4))
    for one in (busy, first, second):
        assert room.take(one)
    room.turn(busy, theirs=False)
    assert room.take(third)
    assert [one.ended for one in (busy, first, second, third)] == [False, True, False, False]
    assert len(room) == 3


def test_an_address_has_its_share_and_no_more() -> None:
    room = Room(Limits(most=9, of_peer=2, reserved=1), shares=lambda peer: peer == "proxy")
    mine = [Guest("a") for _ in range(2)]
    for one in mine:
        assert room.take(one)
        room.turn(one, theirs=False)
    assert not room.take(Guest("a"))
    assert all(room.take(Guest("b")) for _ in range(2))
    assert all(room.take(Guest("proxy")) for _ in range(4))
    assert not any(one.ended for one in mine)


def test_where_all_are_busy_the_reserve_is_for_what_is_urgent() -> None:
    room = Room(Limits(most=2, of_peer=2, reserved=1))
    for peer in ("a", "b"):
        one = Guest(peer)
        assert room.take(one)
        room.turn(one, theirs=False)
    late = Guest("c")
    assert room.take(late)
    assert late.narrow
    room.turn(late, theirs=False)
    assert not room.take(Guest("d"))
    room.leave(late)
    assert room.take(Guest("d"))


def test_half_of_the_descriptors_belong_to_others() -> None:
    assert Limits.within(1024, 128, 1024).most == 480
    assert Limits.within(1024, 128, 65_536).most == 1024
    assert Limits.within(1024, 128, 16).most == 1
