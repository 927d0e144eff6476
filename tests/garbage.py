"""What was collected is no garbage: it is searched once, as an engine does with what it remembers.

A run of all tests holds half a gigabyte before the first of them begins. To search it again and again
took a tenth of the time of what works much, and every fork had to copy what the search had touched.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from yaffle.engine.runtime.gc_tuning import calm


def pytest_collection_finish() -> None:
    """Leave out of every later search what is there now."""
    calm()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Remove what a file has left behind before the next one begins."""
    ended = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
    return ended
