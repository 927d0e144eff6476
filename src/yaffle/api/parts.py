"""What the API is handed, and nothing more: verbs, reads, explanations, facts, numbers, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from yaffle.api.doctor import Doctor
from yaffle.api.identity.keystone.trusting import trusts_of
from yaffle.api.identity.owners import Owners
from yaffle.api.vitals import Vitals
from yaffle.engine.kit import ReceiverTerms
from yaffle.engine.queries import Queries
from yaffle.engine.tenancy import Tenancy
from yaffle.engine.why import Why

if TYPE_CHECKING:
    from yaffle.api.doctor.engine_facts import EngineFacts
    from yaffle.api.identity.keystone.trusting import Trusts
    from yaffle.config import ServerSettings, Settings
    from yaffle.engine.commands import Commands
    from yaffle.engine.kit import Kit
    from yaffle.engine.metrics import Metrics

PREFIX = "/yaffle/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The dependencies of every route."""

    commands: Commands
    queries: Queries
    why: Why
    facts: EngineFacts
    counted: Metrics
    doctor: Doctor
    vitals: Vitals
    server: ServerSettings
    state_dir: Path
    """Named in `GET /yaffle/v1`, so that tools on this machine find what belongs to the server."""
    trusts: Trusts | None = None
    """How users let us act for them; None where nothing is done with their credentials."""
    tenancy: Tenancy | None = None
    """Whose requests are served; None where Keystone tells nobody's project: everybody's."""
    owners: Owners | None = None
    """Whether those who made webhooks are still somebody here; None: nobody asks."""
    public_url: str | None = None
    """How callers of webhooks reach this server; None where each request's own root is right."""
    receivers: ReceiverTerms = field(default_factory=ReceiverTerms)


def parts_of(
    *,
    kit: Kit,
    commands: Commands,
    settings: Settings,
    facts: EngineFacts,
    vitals: Vitals | None = None,
) -> Parts:
    """Return the parts of an API that belongs to the engine of `facts`, if there is one.

    From now on `vitals` say what those parts know; without, they begin here.
    """
    trusts = trusts_of(settings, kit.store, kit.clock)
    owners = Owners(settings.server, kit.clock, trusts)
    doctor = Doctor(kit=kit, settings=settings, facts=facts, owners=owners)
    vitals = vitals or Vitals(description="yaffle", host=kit.host)
    vitals.look = doctor.vital
    return Parts(
        commands=commands,
        queries=Queries(kit),
        why=Why(kit, facts.last_words),
        facts=facts,
        counted=kit.metrics,
        doctor=doctor,
        vitals=vitals,
        server=settings.server,
        state_dir=settings.state_dir,
        trusts=trusts,
        owners=owners,
        tenancy=None if settings.server.keystone is None else Tenancy(kit.drivers),
        public_url=settings.receivers.public_url,
        receivers=kit.receivers,
    )
