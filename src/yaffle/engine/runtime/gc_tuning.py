"""Tunes garbage collection so that it does not make the loop late.

By default Python searches everything that lives whenever a quarter as much has been made anew; with
50,000 watched nodes that took 8 % of a core, and up to 0.6 s at once: long enough to be taken for a
loop that missed something. What is replaced is freed without any search; only cycles need one.
"""

from __future__ import annotations

import gc
from typing import Final

MADE: Final = 50_000
"""So many more objects made than freed, and the young ones are searched; a poll makes thousands."""
AGES: Final = (20, 100)
"""How many such searches until older objects are searched, and how many of those until all are."""


def calm() -> None:
    """Search all that lives once, never again what is there now, and the rest rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(MADE, *AGES)
