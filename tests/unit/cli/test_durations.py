"""Lengths of time as people write and read them."""

from __future__ import annotations

import pytest
import typer

from yaffle.cli import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("90", 90),
     ("1.5h", 5400), ("250ms", 0.25), (" 2H ", 7200), ("1d12h", 129600)],
)  # fmt: skip
def test_what_is_understood(text: str, seconds: float) -> None:
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "-5s", "5 s", "1h-", "h", "1e3", "inf", "nan", "٣s", "5x"]
)
def test_what_is_not_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 15m, 2h or 1d"):
        durations.parse(text)


def test_an_option_takes_no_nothing() -> None:
    assert durations.option(600.0) == 600.0
    for text in ("0", "0s", "x"):
        with pytest.raises(typer.BadParameter):
            durations.option(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0421, "42 ms"), (0.9999, "1.0 s"), (2.44, "2.4 s"), (99.96, "1m 40s"),
     (725, "12m 5s"), (10800, "3h"), (187_200, "2d 4h"), (-2, "-2.0 s")],
)  # fmt: skip
def test_what_is_shown(seconds: float, text: str) -> None:
    assert durations.shown(seconds) == text
