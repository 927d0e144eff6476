"""Validates `resize`: parameters that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from yaffle.api.clustering.errors import HTTPBadRequest

CHANGES: Final = ("adjustment_type", "number", "min_size", "max_size")


def check(data: Mapping[str, object]) -> None:
    """Raise HTTPBadRequest for data that say nothing, or only half of what they mean."""
    given = {key: value for key, value in data.items() if value is not None}
    if not any(key in given for key in CHANGES):
        raise HTTPBadRequest("Not enough parameters to do resize action.")
    kind, number = given.get("adjustment_type"), given.get("number")
    if kind is None and number is not None:
        raise HTTPBadRequest("Missing adjustment_type value for size adjustment.")
    if kind is not None and number is None:
        raise HTTPBadRequest("Missing number value for size adjustment.")
    if kind == "EXACT_CAPACITY" and isinstance(number, (int, float)) and number < 0:
        raise HTTPBadRequest(
            "The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'."
        )
    if kind not in {None, "EXACT_CAPACITY"} and number == 0:
        raise HTTPBadRequest(f"The 'number' must be non-zero value for adjustment type '{kind}'.")
    _bounds(given.get("min_size"), given.get("max_size"))


def _bounds(least: object, most: object) -> None:
    if isinstance(least, int) and isinstance(most, int) and 0 <= most < least:
        raise HTTPBadRequest(
            f"The specified min_size ({least}) is greater than the specified max_size ({most})."
        )
