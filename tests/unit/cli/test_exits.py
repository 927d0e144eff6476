"""The table of exit codes."""

from __future__ import annotations

import pytest

from yaffle.cli.exit_codes import MEANING, ExitCode, of_error, of_status
from yaffle.errors import (
    ConfigError,
    Conflict,
    Forbidden,
    InvalidSpec,
    NotFound,
    StoreUnavailable,
    YaffleError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (YaffleError("x"), 1),
        (ConfigError("x"), 2),
        (InvalidSpec("x"), 2),
        (Forbidden("x"), 2),
        (NotFound("x"), 3),
        (Conflict("x"), 4),
        (StoreUnavailable("x"), 5),
    ],
)
def test_errors(error: YaffleError, code: int) -> None:
    assert of_error(error) == code


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, 0), (204, 0), (400, 2), (401, 2), (403, 2), (404, 3), (409, 4), (413, 2), (429, 5),
     (500, 1), (501, 1), (502, 5), (503, 5), (504, 5)],
)  # fmt: skip
def test_statuses(status: int, code: int) -> None:
    assert of_status(status) == code


def test_every_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)
