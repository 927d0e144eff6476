"""A lab per test: its own state directory, engine, nodes and diaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.chaos.lab import Lab, lab
from tests.chaos.receiver import Receiver, receiving


class MakeLab(Protocol):
    def __call__(self, *, size: int = ..., document: str = ..., **settings: Any) -> Lab: ...


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[MakeLab]:
    """Return a maker of labs with one healthy cluster `c`; at the end nothing may be left of them."""
    with ExitStack() as stack:
        made: list[Lab] = []

        def make(*, size: int = 3, document: str, **settings: Any) -> Lab:
            here = stack.enter_context(lab(tmp_path / f"lab{len(made)}", **settings))
            made.append(here)
            here.start()
            here.profile()
            here.call("create_policy", "hp", document, by="test")
            here.cluster("c", size, policy_name="hp")
            here.wait(here.healthy, 20, "a new cluster is healthy")
            return here

        yield make


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a webhook receiver."""
    with receiving() as state:
        yield state
