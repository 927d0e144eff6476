"""The engine's log is silent here: writing it costs half the time. YAFFLE_SIM_LOG=1 shows it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    if not os.environ.get("YAFFLE_SIM_LOG"):
        structlog.configure(
            processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(50)
        )
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="module")
def little_garbage() -> Iterator[None]:
    """Look for unreachable cycles more rarely: a simulation makes many objects, and few of those."""
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    yield
    gc.set_threshold(*usual)


def _drop(_logger: object, _name: str, _event: object) -> str:
    raise structlog.DropEvent
