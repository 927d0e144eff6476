"""Builds every driver that is installed, from the entry points that strangers' drivers use as well."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from yaffle.engine.jobs import hooks
from yaffle.engine.kit import LOCAL_PROCESS, Drivers
from yaffle.errors import ConfigError
from yaffle.ports import DriverContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yaffle.config import Settings
    from yaffle.model.home import Home
    from yaffle.ports import Clock, Detector, Fencer, Notifier, Profile, UrlProber, Workflow
    from yaffle.ports.credentials import Credentials


def load_drivers(
    settings: Settings,
    clock: Clock,
    prober: UrlProber | None,
    *,
    home: Home | None = None,
    credentials: Credentials | None = None,
) -> Drivers:
    """Build every installed driver from the same entry points that strangers' drivers use."""

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
            credentials=credentials,
            **extra,  # type: ignore[arg-type]
        )

    profiles = cast(
        "dict[str, Profile]",
        _build(
            "yaffle.profiles",
            context,
            skip=_not_set_up(settings),
        ),
    )

    def reading(name: str) -> DriverContext:
        return context(name, profiles=profiles)

    drivers = Drivers(
        profiles=profiles,
        detectors=cast("dict[str, Detector]", _build("yaffle.detectors", reading)),
        fencers=cast("dict[str, Fencer]", _build("yaffle.fencers", reading)),
        workflows=cast("dict[str, Workflow]", _build("yaffle.workflows", context)),
        notifiers=_notifiers(settings, context),
    )
    _all_known(settings, drivers)
    return drivers


def _not_set_up(settings: Settings) -> frozenset[str]:
    """Return the profiles that an operator has to set up first: local processes, and each cloud's."""
    clouds = {p.name for p in entry_points(group="yaffle.profiles") if p.name.startswith("os.")}
    left_out = clouds - set(settings.drivers)
    return frozenset(left_out if settings.local_process.enabled else left_out | {LOCAL_PROCESS})


def _build(
    group: str,
    context: Callable[[str], DriverContext],
    *,
    skip: frozenset[str] = frozenset(),
) -> dict[str, object]:
    built: dict[str, object] = {}
    for point in sorted(entry_points(group=group), key=lambda p: p.name):
        if point.name in built:
            raise ConfigError(f"two installed packages offer {group} {point.name!r}; remove one")
        if point.name not in skip:
            built[point.name] = point.load()(context(point.name))
    return built


def _notifiers(settings: Settings, context: Callable[..., DriverContext]) -> dict[str, Notifier]:
    kinds = {point.name: point for point in entry_points(group="yaffle.notifiers")}
    built: dict[str, Notifier] = {}
    for name, values in settings.notifiers.items():
        kind = values.get("type")
        if kind not in kinds:
            known = ", ".join(sorted(kinds))
            raise ConfigError(f"notifiers.{name}.type = {kind!r}: it must be one of {known}")
        rest = {k: v for k, v in values.items() if k != "type"}
        built[name] = kinds[kind].load()(context(name, rest, section=f"notifiers.{name}"))
    if hooks.NOTIFIER in built:
        raise ConfigError(f"notifiers.{hooks.NOTIFIER}: that name is Yaffle's own; choose another")
    # Not configured: deletion policies say where to.
    built[hooks.NOTIFIER] = kinds[hooks.NOTIFIER].load()(context(hooks.NOTIFIER, {}))
    return built


def _all_known(settings: Settings, drivers: Drivers) -> None:
    known = {
        *drivers.profiles,
        *drivers.detectors,
        *drivers.fencers,
        *drivers.workflows,
        LOCAL_PROCESS,
    }
    for name in settings.drivers:
        if name not in known:
            raise ConfigError(
                f"drivers.{name}: no such driver is installed; known: {', '.join(sorted(known))}"
            )
