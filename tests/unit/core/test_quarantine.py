"""What follows for a host that nodes were moved off: the table, what is known of copies, the words."""

from __future__ import annotations

import itertools

import pytest

from yaffle.core.recovery.host_quarantine import (
    MOVED,
    RECREATED,
    TABLE,
    Copy,
    Do,
    Old,
    Seen,
    judge,
    key_of,
    known,
    old_of,
    seen_of,
    sentence,
    standing,
    with_copy,
)
from yaffle.model.operations import OldCopy

ADMIT = "openstack compute service set --up cmp2 nova-compute"


def copy(
    ident: str = "s1", *, how: str = MOVED, off: bool = True, known: OldCopy = OldCopy.LEFT
) -> Copy:
    return Copy(
        physical_id=ident, name=f"web-{ident}", node_id=f"n-{ident}", how=how, off=off, known=known
    )


def test_every_pair_has_its_row() -> None:
    assert set(TABLE) == set(itertools.product(Seen, Old))


@pytest.mark.parametrize("seen", list(Seen))
@pytest.mark.parametrize("old", [Old.LEFT, Old.UNTOLD])
def test_nothing_but_the_end_of_every_old_copy_ends_it(seen: Seen, old: Old) -> None:
    """Least of all that the host is up again."""
    assert TABLE[seen, old] is not Do.OVER


def test_of_whom_nothing_is_told_nothing_is_believed() -> None:
    assert {TABLE[Seen.NOTHING, old] for old in Old} == {Do.WAIT}


def test_a_host_that_carries_nodes_beside_old_copies_is_a_danger() -> None:
    assert {k for k, do in TABLE.items() if do is Do.DANGER} == {
        (Seen.UP, Old.LEFT),
        (Seen.UP, Old.UNTOLD),
    }


@pytest.mark.parametrize(
    ("up", "barred", "reports", "seen"),
    [
        pytest.param(None, True, True, Seen.NOTHING, id="not told"),
        pytest.param(True, False, True, Seen.UP, id="up"),
        pytest.param(False, True, True, Seen.BACK, id="reports, and is kept out"),
        pytest.param(False, True, False, Seen.AWAY, id="silent"),
        pytest.param(False, False, True, Seen.AWAY, id="down by its own silence"),
    ],
)
def test_how_a_host_is(up: bool | None, barred: bool, reports: bool, seen: Seen) -> None:
    assert seen_of(up=up, barred=barred, reports=reports) is seen


@pytest.mark.parametrize(
    ("how", "told", "after"),
    [
        pytest.param(MOVED, OldCopy.LEFT, OldCopy.LEFT, id="left"),
        pytest.param(MOVED, OldCopy.GONE, OldCopy.GONE, id="gone"),
        pytest.param(MOVED, OldCopy.UNTOLD, OldCopy.UNTOLD, id="untold"),
        pytest.param(MOVED, OldCopy.PRESENT, OldCopy.GONE, id="never moved"),
        pytest.param(RECREATED, OldCopy.PRESENT, OldCopy.LEFT, id="still to be deleted"),
    ],
)
def test_what_is_known_of_a_copy(how: str, told: OldCopy, after: OldCopy) -> None:
    assert known(copy(how=how), told) is after


@pytest.mark.parametrize("told", list(OldCopy))
def test_what_was_proved_gone_stays_so(told: OldCopy) -> None:
    assert known(copy(known=OldCopy.GONE), told) is OldCopy.GONE


def test_one_copy_is_enough() -> None:
    gone, left = copy("a", known=OldCopy.GONE), copy("b")
    untold = copy("c", known=OldCopy.UNTOLD)
    assert old_of([gone]) is Old.GONE
    assert old_of([gone, untold]) is Old.UNTOLD
    assert old_of([gone, untold, left]) is Old.LEFT


def test_a_copy_of_which_nothing_is_said_is_not_gone() -> None:
    found = judge(Seen.UP, [copy("a"), copy("b")], {"a": OldCopy.GONE})
    assert [c.known for c in found.copies] == [OldCopy.GONE, OldCopy.UNTOLD]
    assert found.do is Do.DANGER


def test_a_server_that_is_moved_off_again_has_an_old_copy_again() -> None:
    (once,) = with_copy([copy(known=OldCopy.GONE)], copy())
    assert once.known is OldCopy.LEFT


@pytest.mark.parametrize(
    ("seen", "off", "left", "admit"),
    [
        pytest.param(Seen.BACK, True, OldCopy.GONE, True, id="was off, has cleaned up"),
        pytest.param(Seen.BACK, False, OldCopy.GONE, False, id="nobody saw it off"),
        pytest.param(Seen.BACK, True, OldCopy.LEFT, False, id="an old copy is left"),
        pytest.param(Seen.AWAY, True, OldCopy.GONE, False, id="it is away"),
        pytest.param(Seen.UP, True, OldCopy.GONE, False, id="somebody has done it"),
    ],
)
def test_yaffle_itself_lets_in_only_what_was_off(
    seen: Seen, off: bool, left: OldCopy, admit: bool
) -> None:
    copies = (copy("a", known=OldCopy.GONE), copy("b", off=off, known=left))
    assert standing(seen, copies).admit is admit


@pytest.mark.parametrize(
    ("seen", "left", "words"),
    [
        (Seen.AWAY, OldCopy.LEFT, "must not be let in before"),
        (Seen.BACK, OldCopy.LEFT, f"Only then `{ADMIT}`"),
        (Seen.BACK, OldCopy.UNTOLD, "acknowledge this incident"),
        (Seen.UP, OldCopy.LEFT, "DANGER"),
        (Seen.BACK, OldCopy.GONE, f"to let it carry nodes again: `{ADMIT}`"),
        (Seen.UP, OldCopy.GONE, "carries nodes already"),
    ],
)
def test_a_person_is_told_what_stands_in_the_way(seen: Seen, left: OldCopy, words: str) -> None:
    told = sentence("cmp2", standing(seen, (copy(known=left),)), ADMIT)
    assert words in told
    assert "host cmp2" in told
    assert left is OldCopy.GONE or "web-s1" in told


def test_it_is_over_when_all_are_gone_and_the_host_is_seen() -> None:
    over = {pair for pair, do in TABLE.items() if do is Do.OVER}
    assert over == {(seen, Old.GONE) for seen in Seen if seen is not Seen.NOTHING}


def test_a_host_is_kept_out_when_it_is_back_and_not_before() -> None:
    kept = {pair for pair, do in TABLE.items() if do is Do.KEEP_OUT}
    assert kept == {(Seen.BACK, Old.LEFT), (Seen.BACK, Old.UNTOLD)}


@pytest.mark.parametrize(
    ("seen", "known", "words"),
    [
        (Seen.AWAY, OldCopy.LEFT, "host cmp2 is away, and 1 of 1 old copies (web-s1) may be on it"),
        (Seen.NOTHING, OldCopy.LEFT, "host cmp2 is not told of, and 1 of 1 old copies"),
        (Seen.AWAY, OldCopy.UNTOLD, "whether 1 of 1 old copies (web-s1) are gone"),
    ],
)
def test_of_one_that_waits_it_is_said_what_is_known(seen: Seen, known: OldCopy, words: str) -> None:
    assert words in sentence("cmp2", standing(seen, (copy(known=known),)), ADMIT)


@pytest.mark.parametrize(("count", "cut"), [(5, False), (6, True)])
def test_of_many_old_copies_five_are_named(count: int, cut: bool) -> None:
    said = sentence("cmp2", standing(Seen.AWAY, tuple(copy(str(n)) for n in range(count))), ADMIT)
    assert ("web-4" in said, "web-5" in said, ", …)" in said) == (True, False, cut)


def test_what_yaffle_did_itself_is_said() -> None:
    found = standing(Seen.BACK, (copy(known=OldCopy.GONE),))
    assert ADMIT not in sentence("cmp2", found, ADMIT, "it was let in")


def test_the_key_fits_and_is_no_hosts_incident() -> None:
    from yaffle.core.planning import host_attribution

    assert len(key_of("cmp2")) == 36
    assert key_of("cmp2") != host_attribution.key_of("cmp2")
