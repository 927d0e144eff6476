"""Builds every installed driver from its entry point."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, cast

from yaffle.config.faults import Faults, meant, quoted
from yaffle.core.health.host_fencing import HostFencePolicy
from yaffle.core.health.host_verdict import HostPatience
from yaffle.engine.cluster_actions import lifecycle_hooks
from yaffle.engine.runtime.context import LOCAL_PROCESS, Drivers, HostTerms
from yaffle.errors import ConfigError
from yaffle.ports import DriverContext

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from yaffle.config import Settings
    from yaffle.model.machine_identity import MachineIdentity
    from yaffle.ports import (
        AlertDriver,
        Clock,
        Detector,
        Fencer,
        HostMonitor,
        Notifier,
        Profile,
        UrlProber,
        Workflow,
    )
    from yaffle.ports.credentials import Credentials
    from yaffle.ports.notified_hosts import NotifiedHosts
    from yaffle.ports.vantage_points import VantagePoints

RESPONSIBLE: Final = "responsible"
"""The setting of an alert endpoint that is none of its driver's."""
CLOUD: Final = "cloud"
"""The setting of a host monitor that is none of its driver's: in which cloud its hosts are."""


def load_drivers(
    settings: Settings,
    clock: Clock,
    prober: UrlProber | None,
    *,
    home: MachineIdentity | None = None,
    credentials: Credentials | None = None,
    notified: NotifiedHosts | None = None,
    vantage_points: VantagePoints | None = None,
) -> Drivers:
    """Build every installed driver from the same entry points that strangers' drivers use.

    Raises ConfigError that names what is wrong with any of them.
    """

    def context(
        name: str, values: Mapping[str, object] | None = None, **extra: object
    ) -> DriverContext:
        return DriverContext(
            clock=clock,
            state_dir=settings.state_dir,
            settings=values if values is not None else settings.drivers.get(name, {}),
            allow_networks=settings.network.allow,
            deny_networks=settings.network.deny,
            prober=prober,
            home=home,
            host_names=settings.hosts.names,
            credentials=credentials,
            notified=notified,
            vantage_points=vantage_points,
            **extra,  # type: ignore[arg-type]
        )

    faults = Faults()
    profiles = cast(
        "dict[str, Profile]", _build("yaffle.profiles", context, faults, _not_set_up(settings))
    )

    clouds: Mapping[str, str] = {}
    with faults.gather():
        clouds = _clouds(settings)
    monitors = _host_monitors(settings, context, clouds, faults)

    def reading(name: str) -> DriverContext:
        return context(name, profiles=profiles, host_monitors=monitors, host_clouds=clouds)

    drivers = Drivers(
        profiles=profiles,
        detectors=cast("dict[str, Detector]", _build("yaffle.detectors", reading, faults)),
        fencers=cast("dict[str, Fencer]", _build("yaffle.fencers", reading, faults)),
        workflows=cast("dict[str, Workflow]", _build("yaffle.workflows", context, faults)),
        notifiers=_notifiers(settings, context, faults),
        alerts=_alerts(settings, context, faults),
        host_monitors=monitors,
    )
    _all_known(settings, faults)
    faults.settle()
    return drivers


def _not_set_up(settings: Settings) -> frozenset[str]:
    """Return the profiles that an operator has to set up first: local processes, and each cloud's."""
    clouds = {p.name for p in entry_points(group="yaffle.profiles") if p.name.startswith("os.")}
    left_out = clouds - set(settings.drivers)
    return frozenset(left_out if settings.local_process.enabled else left_out | {LOCAL_PROCESS})


def _build(
    group: str,
    context: Callable[[str], DriverContext],
    faults: Faults,
    skip: Container[str] = (),
) -> dict[str, object]:
    built: dict[str, object] = {}
    for point in sorted(entry_points(group=group), key=lambda p: p.name):
        if point.name in built:
            raise ConfigError(f"two installed packages offer {group} {point.name!r}; remove one")
        if point.name not in skip:
            with faults.gather(), _placed(f"drivers.{quoted(point.name)}"):
                built[point.name] = point.load()(context(point.name))
    return built


@contextmanager
def _placed(section: str) -> Iterator[None]:
    """Say in which section it stands where a driver does not say so itself."""
    try:
        yield
    except ConfigError as error:
        problems = (p if p.startswith(section) else f"{section}: {p}" for p in error.problems)
        raise ConfigError(tuple(problems), hint=error.hint) from error


def _notifiers(
    settings: Settings, context: Callable[..., DriverContext], faults: Faults
) -> dict[str, Notifier]:
    with faults.gather():
        if lifecycle_hooks.NOTIFIER in settings.notifiers:
            section = f"notifiers.{quoted(lifecycle_hooks.NOTIFIER)}"
            raise ConfigError(f"{section}: that name is Yaffle's own; choose another")
    # Not configured: deletion policies say where to.
    wanted = {**settings.notifiers, lifecycle_hooks.NOTIFIER: {"type": lifecycle_hooks.NOTIFIER}}
    found = _named("yaffle.notifiers", "notifiers", "notifier", wanted, context, faults)
    return cast("dict[str, Notifier]", found)


def _alerts(
    settings: Settings, context: Callable[..., DriverContext], faults: Faults
) -> dict[str, AlertDriver]:
    with faults.gather():
        host_terms(settings)
    wanted = {
        name: {k: v for k, v in values.items() if k != RESPONSIBLE}
        for name, values in settings.alerts.items()
    }
    found = _named("yaffle.alerts", "alerts", "alert driver", wanted, context, faults)
    return cast("dict[str, AlertDriver]", found)


def _host_monitors(
    settings: Settings,
    context: Callable[..., DriverContext],
    clouds: Mapping[str, str],
    faults: Faults,
) -> dict[str, HostMonitor]:
    def of_cloud(name: str, values: Mapping[str, object], section: str) -> DriverContext:
        return context(name, values, section=section, cloud=clouds.get(name, ""))

    wanted = {
        name: {k: v for k, v in values.items() if k != CLOUD}
        for name, values in settings.host_monitors.items()
    }
    kind = "host monitor"
    found = _named("yaffle.host_monitors", "host_monitors", kind, wanted, of_cloud, faults)
    return cast("dict[str, HostMonitor]", found)


def _clouds(settings: Settings) -> Mapping[str, str]:
    """Return the cloud of each host monitor's hosts, where its settings say one."""
    said = {name: values.get(CLOUD, "") for name, values in settings.host_monitors.items()}
    wrong = [
        f"host_monitors.{quoted(name)}.{CLOUD} must be a text"
        for name, cloud in said.items()
        if not isinstance(cloud, str)
    ]
    if wrong:
        raise ConfigError(tuple(wrong))
    return {name: str(cloud) for name, cloud in said.items() if cloud}


def host_terms(settings: Settings) -> HostTerms:
    """Return the terms of failed hosts; raise ConfigError where they are not all said."""
    given = settings.hosts
    terms = HostTerms(
        names=given.names,
        exceptions=given.exceptions,
        poll_s=given.poll,
        patience=HostPatience(unfenced_after_s=given.unfenced_after),
        fencing=HostFencePolicy(
            fence_lost=given.fence_lost, share=given.fence_share, domains=given.domains
        ),
    )
    if not settings.alerts:
        return terms
    problems = [
        f"alerts.{quoted(name)}.{RESPONSIBLE} must be true or false"
        for name, values in settings.alerts.items()
        if not isinstance(values.get(RESPONSIBLE, False), bool)
    ]
    chosen = [name for name, values in settings.alerts.items() if values.get(RESPONSIBLE) is True]
    if len(settings.alerts) == 1:
        chosen = list(settings.alerts)
    if len(chosen) != 1 and not problems:
        problems.append(
            f"alerts: {len(chosen)} of {len(settings.alerts)} endpoints are responsible; set"
            f" {RESPONSIBLE} = true for the one whose acceptance settles a host's failure"
        )
    if settings.hosts.on_shared_storage is None:
        problems.append(
            "hosts.on_shared_storage is missing: alerts tell whether the instances of a host lie on"
            " shared storage, and that is never guessed"
        )
    if problems:
        raise ConfigError(tuple(problems))
    return replace(
        terms, responsible=chosen[0], on_shared_storage=bool(settings.hosts.on_shared_storage)
    )


def _named(
    group: str,
    section: str,
    noun: str,
    wanted: Mapping[str, Mapping[str, object]],
    context: Callable[..., DriverContext],
    faults: Faults,
) -> dict[str, object]:
    """Build what settings name and give a type: several may be of one."""
    kinds = {point.name: point for point in entry_points(group=group)}
    built: dict[str, object] = {}
    for name, values in wanted.items():
        place, kind = f"{section}.{quoted(name)}", values.get("type")
        rest = {k: v for k, v in values.items() if k != "type"}
        with faults.gather(), _placed(place):
            if kind not in kinds:
                near = meant(str(kind), kinds, otherwise="known: " + ", ".join(sorted(kinds)))
                raise ConfigError(f"{place}.type = {kind!r}: there is no such {noun}{near}")
            built[name] = kinds[kind].load()(context(name, rest, section=place))
    return built


def _all_known(settings: Settings, faults: Faults) -> None:
    ports = ("profiles", "detectors", "fencers", "workflows")
    known = sorted({p.name for port in ports for p in entry_points(group=f"yaffle.{port}")})
    for name in settings.drivers:
        with faults.gather():
            if name not in known:
                near = meant(name, known, otherwise="known: " + ", ".join(known))
                raise ConfigError(f"drivers.{quoted(name)}: no such driver is installed{near}")
