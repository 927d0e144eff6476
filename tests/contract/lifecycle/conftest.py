"""Patience: a broker that is merely held up is not lost; the one test that is about that says less."""

from __future__ import annotations

import pytest

from yaffle.drivers.detectors.lifecycle import source

ANSWER_S = source.ANSWER_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # A connection that is given up is a gap: everything would be read again, and be counted.
    monkeypatch.setattr(source, "ANSWER_S", 60.0)
