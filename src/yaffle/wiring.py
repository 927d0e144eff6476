"""The one file that joins the parts: drivers from entry points, store, prober, engine, commands."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from yaffle.api.auth.host_senders import HostSenders
from yaffle.config.faults import Faults
from yaffle.config.private import way_fault, writer_fault
from yaffle.core.addresses import DENIED, AddressRules
from yaffle.core.planning.budgets import BudgetLimit
from yaffle.drivers.detectors.backend import HypervisorDetector, StatusDetector
from yaffle.drivers.detectors.lifecycle import Unheard
from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.cluster_actions import lifecycle_hooks
from yaffle.engine.commands import Commands
from yaffle.engine.driver_registry import host_terms, load_drivers
from yaffle.engine.engine import Engine
from yaffle.engine.runtime.change_poller import IDLE_S, ChangePoller
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.clock_sync import keep_time
from yaffle.engine.runtime.context import (
    Drivers,
    EngineContext,
    Quotas,
    ReceiverTerms,
    Signals,
    limits,
)
from yaffle.engine.runtime.disk_space import DiskSpace
from yaffle.engine.runtime.machine_id import home_of
from yaffle.engine.runtime.metrics import Metrics
from yaffle.engine.runtime.notified_hosts import StoredNotifications
from yaffle.engine.runtime.stored_credentials import (
    StoredCredentials,
    kept_credentials,
    no_credentials,
)
from yaffle.engine.runtime.vantage_points import StoredVantagePoints
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.integrations.secret_box import IdKeys
from yaffle.ports import DriverContext
from yaffle.prober.client import ProberClient
from yaffle.store import receivers
from yaffle.store.database import open_store
from yaffle.store.prune import Retention

if TYPE_CHECKING:
    from yaffle.config import RetentionSettings, Settings
    from yaffle.integrations.openstack import LookedAt
    from yaffle.ports import Clock, Profile, UrlProber
    from yaffle.store.database import Store

log = structlog.get_logger()

T = TypeVar("T")

HOLD_SHARE: Final = 0.25
HOLD_S_MIN: Final = 1.0

OPEN_AGAIN_S: Final = 1.0
LOOK_FULL_S: Final = 300.0
"""Between two complete lists of a cloud that is only looked at; in between only changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that runs in one process with an engine."""

    settings: Settings
    store: Store
    ctx: EngineContext
    engine: Engine
    commands: Commands
    prober: ProberClient
    ticker: ChangePoller


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Parts of a process that answers where no engine is: it writes down what is wanted, others do it."""

    settings: Settings
    store: Store
    ctx: EngineContext
    commands: Commands
    ticker: ChangePoller


Waiting = Callable[[str], None]
"""Told why the database cannot be opened, each time; it is tried again."""


def check(settings: Settings, broken: Set[str] = frozenset()) -> None:
    """Raise ConfigError naming every driver, notifier and key with which nothing would start.

    Nothing is opened or created, and nobody is asked: a start that is refused has touched nothing.
    `broken`: sections that are wrong themselves, and of which nothing more is said.
    """
    clock, faults = SystemClock(), Faults()
    prober = ProberClient(clock=clock, on_blind=lambda _: None, rules=address_rules(settings))
    # With keys that cannot be used, no driver is blamed for that there are none.
    kept: StoredCredentials | None = no_credentials(clock)
    if "credentials" not in broken:
        with faults.gather():
            kept = kept_credentials(settings, None, clock)
    with faults.gather():
        load_drivers(settings, clock, prober, credentials=kept)
    if "host_senders" not in broken:
        with faults.gather():
            HostSenders(settings, clock)
    if not broken & {"receivers", "state_dir"}:
        with faults.gather():
            receiver_terms(settings)
    faults.settle()


@asynccontextmanager
async def service(settings: Settings, *, waiting: Waiting | None = None) -> AsyncIterator[Service]:
    """Open the database and build every part; `run` then makes it live. Closes what it opened.

    With `waiting` a server that is away is waited for, however long; else StoreUnavailable.
    """
    made_dir(settings.state_dir)
    clock = SystemClock()
    async with await _opened(settings, clock, waiting, alone=settings.is_embedded) as store:
        box: list[Engine] = []
        prober = ProberClient(
            clock=clock,
            on_blind=lambda cause: box[0].blind(f"prober: {cause}"),
            rules=address_rules(settings),
        )
        ctx = build_kit(settings, store, clock, prober)
        if settings.is_embedded:
            # No older program can be at work on a file that we hold: nobody needs them any more.
            await store.write(lambda conn: receivers.hide_old(conn, ctx.receivers.keys))
        ctx.metrics.probes.set_function(lambda: prober.stats.checks_per_s)
        ctx.metrics.part_up.labels("prober").set_function(lambda: float(prober.stats.up))
        box.append(Engine(ctx))
        yield Service(
            settings=settings,
            store=store,
            ctx=ctx,
            engine=box[0],
            commands=Commands(ctx),
            prober=prober,
            ticker=ChangePoller(ctx),
        )


@asynccontextmanager
async def front(
    settings: Settings, *, waiting: Waiting | None = None, engine_pid: int | None = None
) -> AsyncIterator[Front]:
    """Open the database and build what an API process needs; `waiting` as in `service`.

    `engine_pid`: the process whose engine it belongs to; None where there is none on this machine.
    """
    made_dir(settings.state_dir)
    clock = SystemClock()
    async with await _opened(settings, clock, waiting, alone=False) as store:
        # Never run: drivers are here for their schemas, and nobody asks them for a URL.
        prober = ProberClient(clock=clock, on_blind=lambda _: None, rules=address_rules(settings))
        ctx = build_kit(settings, store, clock, prober)
        if engine_pid is not None:
            ctx = replace(ctx, pid=engine_pid)
        ticker = ChangePoller(ctx, pace_s=IDLE_S)
        ctx.metrics.database.set_function(lambda: float(not ticker.fault))
        yield Front(settings=settings, store=store, ctx=ctx, commands=Commands(ctx), ticker=ticker)


async def _opened(
    settings: Settings, clock: Clock, waiting: Waiting | None, *, alone: bool
) -> Store:
    while True:
        try:
            store = await asyncio.to_thread(
                open_store,
                settings.database_url,
                clock=clock,
                backup_dir=settings.state_dir / "backups",
                with_engine_lock=alone,
                # Whoever freezes amid a write must not cost the others their leases.
                hold_s=max(HOLD_S_MIN, settings.engine.lease * HOLD_SHARE),
            )
        except StoreUnavailable as error:
            # A file does not come back by itself, and its fault is mended before a start.
            if waiting is None or settings.is_embedded:
                raise
            waiting(str(error))
        else:
            # Nothing is written down by a clock that is not everybody's; the ticker asks again.
            with suppress(StoreUnavailable):
                await keep_time(store, clock)
            return store
        await clock.sleep(OPEN_AGAIN_S)


async def run(service: Service) -> None:
    """Run prober and engine until cancelled; if one of them dies, so does the process, loudly."""
    async with asyncio.TaskGroup() as group:
        group.create_task(service.prober.run(), name="prober")
        group.create_task(service.engine.run(), name="engine")
        # The API writes from a process of its own, whatever the database.
        group.create_task(service.ticker.run(), name="ticker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A cloud that is only looked at."""

    cloud: LookedAt
    name: str
    all_projects: bool
    shared_s: float
    """So old may a list of servers be that several groups share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """An engine that can see a cloud and has no means to change anything in it."""

    ctx: EngineContext
    engine: Engine
    commands: Commands
    nova: NovaServer


@asynccontextmanager
async def watching(settings: Settings, watched: Watched) -> AsyncIterator[Watching]:
    """Open the database and build an engine whose every road to the cloud takes questions only.

    Raises as `open_store` does. Notifiers, workflows and the prober are not there at all.
    """
    made_dir(settings.state_dir)
    clock = SystemClock()
    nova = _looking(settings, clock, watched)
    async with await _opened(settings, clock, None, alone=True) as store:
        ctx = build_kit(settings, store, clock, None, drivers=_lookers(settings, clock, nova))
        yield Watching(ctx=ctx, engine=Engine(ctx), commands=Commands(ctx), nova=nova)


def _looking(settings: Settings, clock: Clock, watched: Watched) -> NovaServer:
    values = {
        "cloud": watched.name,
        "all_projects": watched.all_projects,
        "full_sweep": LOOK_FULL_S,
    }
    context = DriverContext(clock=clock, state_dir=settings.state_dir, settings=values)
    return NovaServer(context, cloud=watched.cloud, shared_s=watched.shared_s)


def _lookers(settings: Settings, clock: Clock, nova: NovaServer) -> Drivers:
    """Return what looks; the fencer is there to be named in a plan, and can do no more than `nova`."""
    profiles: dict[str, Profile] = {nova.type: nova}
    context = DriverContext(clock=clock, state_dir=settings.state_dir, profiles=profiles)
    status, hosts = StatusDetector(context), HypervisorDetector(context)
    asking = Unheard(context)
    return Drivers(
        profiles=profiles,
        detectors={status.type: status, hosts.type: hosts, asking.type: asking},
        fencers={ComputeFencer.type: ComputeFencer(context)},
    )


def build_kit(
    settings: Settings,
    store: Store,
    clock: Clock,
    prober: UrlProber | None,
    *,
    drivers: Drivers | None = None,
) -> EngineContext:
    """Return what every part of the engine is handed; `drivers`: in place of all that are installed."""
    home = home_of(settings.state_dir)
    if drivers is None:
        drivers = load_drivers(
            settings,
            clock,
            prober,
            home=home,
            credentials=kept_credentials(settings, store, clock),
            notified=StoredNotifications(store, clock),
            vantage_points=StoredVantagePoints(store),
        )
    metrics = Metrics()
    metrics.heard.follow(drivers.detectors)
    return EngineContext(
        store=store,
        clock=clock,
        drivers=drivers,
        settings=settings.engine,
        budgets=limits(settings.budgets),
        signals=Signals(),
        rng=random.Random(),
        new_id=lambda: str(uuid.uuid4()),
        host=socket.gethostname(),
        pid=os.getpid(),
        metrics=metrics,
        alone=settings.is_embedded,
        home=home,
        retention=retention(settings.retention),
        quotas=Quotas(clusters=settings.quotas.clusters, nodes=settings.quotas.nodes),
        rules=address_rules(settings),
        notify=tuple(name for name in drivers.notifiers if name != lifecycle_hooks.NOTIFIER),
        receivers=receiver_terms(settings),
        hosts=host_terms(settings),
        room=DiskSpace(
            database=None if store.path is None else store.path.parent,
            state_dir=settings.state_dir,
        ),
    )


def receiver_terms(settings: Settings) -> ReceiverTerms:
    """Return what holds for every webhook; raise ConfigError for a file of keys that cannot be used."""
    given, age_d = settings.receivers, settings.receivers.max_age
    keys = (
        IdKeys(settings.state_dir / "receivers.key")
        if given.keys_file is None
        else IdKeys(given.keys_file, setting="receivers.keys_file")
    )
    keys.check()
    rate = BudgetLimit(max_in_flight=1, burst=given.burst, per_hour=given.per_minute * 60)
    return ReceiverTerms(
        rate=rate, keys=keys, age_us=None if age_d is None else int(age_d * 86_400e6)
    )


def retention(settings: RetentionSettings) -> Retention:
    """Return the retention in the store's terms."""
    day_s = 86_400
    return Retention(
        events_s=int(settings.events * day_s),
        decisions_s=int(settings.events * day_s),
        actions_s=int(settings.actions * day_s),
        incidents_s=int(settings.incidents * day_s),
    )


def address_rules(settings: Settings) -> AddressRules:
    """Return which addresses may be spoken to."""

    def networks(
        texts: tuple[str, ...],
    ) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        return tuple(ipaddress.ip_network(t, strict=False) for t in texts)

    denied = settings.network.deny
    return AddressRules(
        allow=networks(settings.network.allow),
        deny=DENIED if denied is None else networks(denied),
    )


def made_dir(path: Path) -> Path:
    """Create the state directory, private to us; raise ConfigError where it is not."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = writer_fault(path, path.stat()) or way_fault(path)
    except OSError as error:
        raise ConfigError(f"state_dir = {path}: {error.strerror}") from None
    if fault is not None:
        raise ConfigError(f"state_dir = {path}: {fault}")
    return path
