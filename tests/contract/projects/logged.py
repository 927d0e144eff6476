"""What a server would have logged, every line of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import structlog

from yaffle.cli.serve import logs


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Collect what is logged in the block."""
    said = io.StringIO()
    with redirect_stderr(said):
        logs.configure("debug", "text")
        # What is kept at its first use would speak into the ear of the first test for ever.
        structlog.configure(cache_logger_on_first_use=False)
        try:
            yield said
        finally:
            structlog.reset_defaults()
