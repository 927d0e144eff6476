"""Who should watch what: even, the same for all, with as few moves as can be, and without end."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yaffle.core.assignment import Watched, score, share
from yaffle.model.ids import ClusterId, EngineId

A, B, C, D = (EngineId(name) for name in "abcd")
NAMES = st.sampled_from([EngineId(f"e{n}") for n in range(6)])
FLEETS = st.frozensets(NAMES, min_size=1)


def watched(
    name: object, weight: int = 1, owner: EngineId | None = None, *blind: EngineId
) -> Watched:
    return Watched(
        cluster_id=ClusterId(str(name)), weight=weight, owner=owner, blind=frozenset(blind)
    )


def counts(held: Mapping[ClusterId, EngineId], live: frozenset[EngineId]) -> list[int]:
    found = Counter(held.values())
    return sorted(found[e] for e in live)


def applied(watches: list[Watched], held: Mapping[ClusterId, EngineId]) -> list[Watched]:
    return [replace(w, owner=held[w.cluster_id]) for w in watches]


def moves(watches: list[Watched], held: Mapping[ClusterId, EngineId]) -> int:
    """How many watches leave an engine that had them."""
    return sum(w.owner is not None and held[w.cluster_id] != w.owner for w in watches)


@st.composite
def pictures(draw: st.DrawFn, weight: int = 40) -> tuple[list[Watched], frozenset[EngineId]]:
    """Any picture: owners that are gone, engines that are blind."""
    live = draw(FLEETS)
    size = draw(st.integers(0, 24))
    return [
        watched(
            n,
            draw(st.integers(1, weight)),
            draw(st.none() | st.sampled_from(sorted(live))),
            *draw(st.just(()) | st.frozensets(NAMES, max_size=3)),
        )
        for n in range(size)
    ], live


@pytest.mark.parametrize(
    ("watches", "live", "late", "held"),
    [
        pytest.param([watched(1)], {}, {}, {}, id="nobody-lives"),
        pytest.param([], {A}, {}, {}, id="nothing-to-watch"),
        pytest.param([watched(1), watched(2)], {A}, {}, {"1": A, "2": A}, id="alone"),
        pytest.param(
            [watched(1, 1, A), watched(2, 1, A), watched(3, 1, B)],
            {A, B},
            {},
            {"1": A, "2": A, "3": B},
            id="kept-while-even-enough",
        ),
        pytest.param(
            [watched(1, 9, A), watched(2, 1, A)], {A, B}, {}, {"1": A, "2": B}, id="one-moves"
        ),
        pytest.param(
            [watched(1, 9, A), watched(2, 10, A), watched(3, 2, A), watched(4, 20, B)],
            {A, B},
            {},
            {"1": A, "2": A, "3": A, "4": B},
            id="nothing-moves-for-next-to-nothing",
        ),
        pytest.param([watched(1, 5, A, A)], {A, B}, {}, {"1": B}, id="the-blind-hands-over"),
        pytest.param([watched(1, 5, A, A, B)], {A, B}, {}, {"1": A}, id="all-blind-it-stays"),
        pytest.param([watched(1, 5, None, A)], {A}, {}, {"1": A}, id="blind-but-alone"),
        pytest.param(
            [watched(1, 5, A, A), *(watched(n, 1, B) for n in range(2, 9))],
            {A, B},
            {},
            {str(n): B for n in range(1, 9)},
            id="the-blind-gets-nothing-new",
        ),
        pytest.param(
            [watched(1, 1, A, A, B), *(watched(n, 1, B) for n in range(2, 6))],
            {A, B},
            {},
            {"1": A, "2": B, "3": B, "4": B, "5": A},
            id="a-silent-cluster-is-no-engines-trouble",
        ),
        pytest.param(
            [*(watched(n, 1, A) for n in range(1, 4)), watched(4, 1, A, A, B)],
            {A, B},
            {},
            {"1": A, "2": B, "3": B, "4": A},
            id="what-nobody-sees-stays-when-others-move",
        ),
        pytest.param([watched(1), watched(2)], {A, B}, {A}, {"1": B, "2": B}, id="late-gets-none"),
        pytest.param([watched(1, 1, A)], {A, B}, {A}, {"1": A}, id="late-keeps"),
        pytest.param(
            [watched(1, 1, None, B)], {A, B}, {A}, {"1": A}, id="late-is-better-than-blind"
        ),
    ],
)
def test_table(
    watches: list[Watched],
    live: set[EngineId],
    late: set[EngineId],
    held: Mapping[str, EngineId],
) -> None:
    assert share(watches, frozenset(live), frozenset(late)) == held


def test_what_nobody_holds_goes_where_it_always_would() -> None:
    """Fixed numbers: a process of another version must come to the same."""
    assert score(A, ClusterId("1")) == 0xB27F9D5BFD0616C0
    code = (
        "from yaffle.core.assignment import score;"
        "print(*[max('abc', key=lambda e: score(e, str(n))) for n in range(12)])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert found == [max((A, B, C), key=lambda e: score(e, ClusterId(str(n)))) for n in range(12)]


@given(pictures(), st.randoms(use_true_random=False))
def test_the_order_of_reading_says_nothing(
    count_nodes: tuple[list[Watched], frozenset[EngineId]], rng: random.Random
) -> None:
    watches, live = count_nodes
    mixed = rng.sample(watches, len(watches))
    assert share(watches, live) == share(mixed, frozenset(rng.sample(sorted(live), len(live))))


@given(pictures())
def test_everything_is_held_by_somebody_who_lives_and_sees(
    count_nodes: tuple[list[Watched], frozenset[EngineId]],
) -> None:
    watches, live = count_nodes
    held = share(watches, live)
    assert held.keys() == {w.cluster_id for w in watches}
    for watch in watches:
        assert held[watch.cluster_id] in (live - watch.blind or live)


@given(pictures())
def test_what_was_carried_out_asks_for_nothing_more(
    count_nodes: tuple[list[Watched], frozenset[EngineId]],
) -> None:
    watches, live = count_nodes
    held = share(watches, live)
    assert share(applied(watches, held), live) == held


@given(st.integers(0, 60), FLEETS)
def test_equal_watches_are_shared_to_within_one(size: int, live: frozenset[EngineId]) -> None:
    held = share([watched(n) for n in range(size)], live)
    found = counts(held, live)
    assert found[-1] - found[0] <= 1


@given(st.integers(0, 60), FLEETS, FLEETS, st.integers(1, 9))
def test_few_move_when_engines_join_and_leave(
    size: int, before: frozenset[EngineId], after: frozenset[EngineId], weight: int
) -> None:
    watches = [watched(n, weight) for n in range(size)]
    watches = applied(watches, share(watches, before))
    watches = [replace(w, owner=w.owner if w.owner in after else None) for w in watches]
    held = share(watches, after)
    found = counts(held, after)
    assert found[-1] - found[0] <= 1
    # Nobody who stays loses more than what takes it down to its new share.
    kept = counts({w.cluster_id: w.owner for w in watches if w.owner is not None}, after)
    assert moves(watches, held) == sum(max(0, n - m) for n, m in zip(kept, found, strict=True))


@given(pictures(weight=300))
def test_loads_end_up_even_enough(count_nodes: tuple[list[Watched], frozenset[EngineId]]) -> None:
    watches, live = count_nodes
    watches = [replace(w, blind=frozenset()) for w in watches]
    held = share(watches, live)
    load = dict.fromkeys(live, 0)
    for w in watches:
        load[held[w.cluster_id]] += w.weight
    mean = sum(w.weight for w in watches) / max(1, len(watches))
    lightest = min(load.values())
    for w in watches:
        gap = load[held[w.cluster_id]] - lightest
        assert gap <= max(w.weight, mean)


def act(
    rows: list[Watched], count_nodes: list[Watched], me: EngineId, live: frozenset[EngineId]
) -> int:
    """Give and take what `me` would by a picture; only the rows' present owners are obeyed."""
    held = share(count_nodes, live)
    changed = 0
    for n, seen in enumerate(count_nodes):
        planned = held[seen.cluster_id]
        if rows[n].owner == me == seen.owner and planned != me:
            rows[n] = replace(rows[n], owner=None)
        elif rows[n].owner is None and planned == me:
            rows[n] = replace(rows[n], owner=me)
        else:
            continue
        changed += 1
    return changed


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.frozensets(NAMES, min_size=2),
    st.integers(1, 30),
    st.randoms(use_true_random=False),
)
def test_engines_that_see_old_pictures_come_to_rest(
    size: int, live: frozenset[EngineId], weight: int, rng: random.Random
) -> None:
    names = sorted(live)
    rows = [
        watched(
            n,
            rng.randint(1, weight),
            rng.choice([None, *names]),
            *rng.sample(names, 0 if n % 7 else 1),
        )
        for n in range(size)
    ]
    past = [list(rows)]
    while True:
        changed = sum(act(rows, rng.choice(past[-3:]), rng.choice(names), live) for _ in names)
        past.append(list(rows))
        if not changed and not sum(act(rows, list(rows), name, live) for name in names):
            break
        assert len(past) < 20 * size + 20, "it never comes to rest"
    held = share(rows, live)
    assert all(w.owner == held[w.cluster_id] for w in rows)


def test_ten_thousand_are_shared_in_a_moment() -> None:
    watches = [watched(n, 1 + n % 50, (A, B)[n % 2]) for n in range(10_000)]
    held = share(watches, frozenset({A, B, C}))
    load = Counter[EngineId]()
    for w in watches:
        load[held[w.cluster_id]] += w.weight
    assert max(load.values()) - min(load.values()) <= 26
    assert moves(watches, held) < 3_400
