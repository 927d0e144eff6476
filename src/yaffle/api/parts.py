"""What the API is handed, and nothing more: verbs, reads, explanations, facts, numbers, settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaffle.api.doctor import Doctor
    from yaffle.config import ServerSettings
    from yaffle.engine.commands import Commands
    from yaffle.engine.metrics import Metrics
    from yaffle.engine.queries import Queries
    from yaffle.engine.why import Why

PREFIX = "/yaffle/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The dependencies of every route."""

    commands: Commands
    queries: Queries
    why: Why
    metrics: Metrics
    doctor: Doctor
    server: ServerSettings
    state_dir: Path
    """Named in `GET /yaffle/v1`, so that tools on this machine find what belongs to the server."""
