"""The API's context: commands, queries, explanations, diagnostics, metrics, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from yaffle.api.auth.host_senders import HostSenders
from yaffle.api.auth.keystone.trusts import trusts_of
from yaffle.api.auth.owners import Owners
from yaffle.api.diagnostics import Doctor
from yaffle.api.self_health import Vitals
from yaffle.engine.commands.tenancy import Tenancy
from yaffle.engine.explain import Explainer
from yaffle.engine.queries import Queries
from yaffle.engine.runtime.context import ReceiverTerms

if TYPE_CHECKING:
    from yaffle.api.auth.keystone.trusts import Trusts
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.config import ServerSettings, Settings
    from yaffle.engine.commands import Commands
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.metrics import Metrics

PREFIX = "/yaffle/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """The dependencies of every route."""

    commands: Commands
    queries: Queries
    why: Explainer
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
    senders: HostSenders | None = None
    """Who may tell of failed hosts by signed messages; None where nobody may."""
    public_url: str | None = None
    """How callers of webhooks reach this server; None where each request's own root is right."""
    receivers: ReceiverTerms = field(default_factory=ReceiverTerms)


def parts_of(
    *,
    ctx: EngineContext,
    commands: Commands,
    settings: Settings,
    facts: EngineFacts,
    vitals: Vitals | None = None,
) -> AppContext:
    """Return the parts of an API that belongs to the engine of `facts`, if there is one.

    From now on `vitals` say what those parts know; without, they begin here.
    """
    trusts = trusts_of(settings, ctx.store, ctx.clock)
    owners = Owners(settings.server, ctx.clock, trusts)
    doctor = Doctor(ctx=ctx, settings=settings, facts=facts, owners=owners)
    vitals = vitals or Vitals(description="yaffle", host=ctx.host)
    vitals.look = doctor.vital
    return AppContext(
        commands=commands,
        queries=Queries(ctx),
        why=Explainer(ctx, facts.last_words),
        facts=facts,
        counted=ctx.metrics,
        doctor=doctor,
        vitals=vitals,
        server=settings.server,
        state_dir=settings.state_dir,
        trusts=trusts,
        owners=owners,
        tenancy=None if settings.server.keystone is None else Tenancy(ctx.drivers),
        senders=HostSenders(settings, ctx.clock),
        public_url=settings.receivers.public_url,
        receivers=ctx.receivers,
    )
