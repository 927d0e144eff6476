"""What an ADDRESS on the command line stands for: one endpoint, or the workers of a directory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from yaffle_health.errors import UnknownGroup
from yaffle_health.reader import Problem, Reading, Target, read_all, target

if TYPE_CHECKING:
    from yaffle_health.prefork import Workers


class Asked:
    """The addresses of one command, ready to be asked together again and again."""

    def __init__(self, asked: argparse.Namespace) -> None:
        """Read the addresses; BadOption says which of them cannot be meant."""
        self._group: str | None = asked.group
        self._sources: list[Target | Workers] = [
            _workers(text)
            if _is_directory(text)
            else target(text, request=asked.path, group=asked.group)
            for text in asked.addresses
        ]

    def read(self, timeout_s: float) -> list[Reading]:
        """Ask all of them; the endpoints at once, each directory after them."""
        endpoints = [s for s in self._sources if isinstance(s, Target)]
        readings = iter(read_all(endpoints, timeout_s=timeout_s))
        return [
            next(readings) if isinstance(s, Target) else self._gathered(s) for s in self._sources
        ]

    def _gathered(self, workers: Workers) -> Reading:
        began = time.monotonic()
        address = f"{workers.directory}/"
        try:
            health = workers.health(self._group)
        except UnknownGroup as error:
            return Reading(
                address=address,
                took_s=time.monotonic() - began,
                problem=Problem.NOT_HEALTH,
                why=str(error),
            )
        return Reading(
            address=address, took_s=time.monotonic() - began, status=health.status, health=health
        )


def _is_directory(text: str) -> bool:
    # A directory that is not there yet is meant by its slash.
    return text.startswith("/") and (text.endswith("/") or Path(text).is_dir())


def _workers(text: str) -> Workers:
    # A probe of one endpoint is started every few seconds: it does not pay for the server's modules.
    from yaffle_health.prefork import Workers

    return Workers(text, fresh_s=0)
