"""[healthcheck] in an OpenStack service's configuration file, and the wiring that a service needs for it.

The three options of seed 4, three for the socket and the shape, one for hosts that compute. Their
names do not touch those that oslo.middleware has in the same section. Listed for
oslo-config-generator as `yaffle_health`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, Self

from oslo_config import cfg, types

from yaffle_health.current import ATTRIBUTE, set_default
from yaffle_health.endpoint import serve
from yaffle_health.errors import HealthError
from yaffle_health.manager import TTL_S, Manager
from yaffle_health.options import SECONDS_MAX
from yaffle_health.server import Endpoint
from yaffle_health.views import Shape

GROUP: Final = "healthcheck"
_LOG: Final = logging.getLogger("yaffle_health")


class _Whole(types.Integer):
    """An integer whose error says the value as well: the library's own says only the limit."""

    def __call__(self, value: object) -> int | float | None:
        """Read a value; ValueError names it."""
        try:
            return super().__call__(value)
        except ValueError as error:
            raise ValueError(f"{value!r}: {error}") from error


OPTIONS: Final[Sequence[cfg.Opt]] = (
    cfg.StrOpt(
        "uri",
        default="",
        sample_default="unix:///run/nova/nova-compute.sock",
        help="Where the process tells its health: a comma-separated list of tcp://host:port and "
        "unix:///absolute/path. Empty, the default, disables it. The endpoint has no authentication: "
        "bind TCP to localhost, and let the permissions of its directory guard a socket. In a path "
        "{pid} stands for the process id, for services with several workers.",
    ),
    cfg.Opt(
        "ttl",
        type=_Whole(min=0, max=int(SECONDS_MAX)),
        default=int(TTL_S),
        mutable=True,
        help="For how many seconds a reported health check item is believed. An older one counts as "
        "warn, and the service as fail when all of them are older. 0: for ever.",
    ),
    cfg.Opt(
        "cache_control",
        type=_Whole(min=-1),
        sample_default="the value of ttl",
        help="The max-age of the answer's Cache-Control in seconds. 0 leaves the header out, -1 says "
        "no-cache, as every answer that says fail does. 10 is a sane value where a cache or a proxy "
        "stands between.",
    ),
    cfg.StrOpt(
        "format",
        default=Shape.NOVA.value,
        choices=[
            (Shape.NOVA.value, "checks is an object of objects"),
            (Shape.IETF.value, "draft-inadarei-api-health-check-06: checks is an object of arrays"),
        ],
        advanced=True,
        help="The shape of an answer to which the client names none.",
    ),
    cfg.StrOpt(
        "socket_mode",
        default="0660",
        regex="^0?[0-7]{3}$",
        advanced=True,
        help="The permissions of a UNIX socket, in octal digits.",
    ),
    cfg.StrOpt("socket_group", advanced=True, help="The group that owns a UNIX socket."),
    cfg.BoolOpt(
        "apart",
        default=False,
        advanced=True,
        help="Let a small process of its own answer, for a service that computes without a pause, or "
        "whose interpreter may be held by an extension: the service does not notice the probes, and "
        "counts as failing when it says nothing for 5 seconds. Answers are half a second old at most. "
        "The process takes about 12 MB of memory, and ends with the service.",
    ),
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the entry point `oslo.config.opts`."""
    return [(GROUP, list(OPTIONS))]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the section known to a configuration; again does nothing."""
    conf.register_opts(OPTIONS, group=GROUP)


class Context(Protocol):
    """A request's or a service's context, which carries the manager (seed 4, "code changes")."""

    healthcheck_manager: Manager


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The section's values, in the library's units."""

    uri: str = ""
    ttl_s: int = int(TTL_S)
    cache_control: int | None = None
    format: str = Shape.NOVA.value
    socket_mode: int = 0o660
    socket_group: str | None = None
    apart: bool = False

    @classmethod
    def read(cls, conf: cfg.ConfigOpts) -> Settings:
        """Read the section; HealthError names the option and the value that cannot be meant."""
        section = conf[GROUP]
        return cls(
            uri=_text(section, "uri"),
            ttl_s=_number(section, "ttl") or 0,
            cache_control=_number(section, "cache_control"),
            format=_text(section, "format"),
            socket_mode=int(_text(section, "socket_mode"), 8),
            socket_group=_text(section, "socket_group") or None,
            apart=_value(section, "apart") is True,
        )


class Healthcheck:
    """The health of one OpenStack service: a manager, and an endpoint if the configuration has a uri.

    hc = Healthcheck(CONF, binary="nova-compute", service_id=service.uuid).start()
    hc.attach(context)       # so that @healthcheck finds the manager through the context
    hc.reset()               # in the service's own reset(), which oslo.service calls on SIGHUP
    hc.stop()
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        binary: str,
        service_id: str | None = None,
        hostname: str | None = None,
        release: str | None = None,
        names: Iterable[str] | None = None,
        groups: Mapping[str, Iterable[str]] | None = None,
        required: bool = False,
    ) -> None:
        """`binary` is the service's name; notes.host is CONF.host where there is one.

        An option that cannot be meant is logged and leaves the endpoint closed; with `required` it
        is raised, as is an address that cannot be had.
        """
        register_opts(conf)
        self._conf, self._required = conf, required
        self._failures: list[HealthError] = []
        self._settings = self._read()
        self.manager = Manager(
            description=binary,
            service_id=service_id,
            host=getattr(conf, "host", None),
            hostname=hostname,
            release=release,
            ttl_s=self._settings.ttl_s,
            names=names,
            groups=groups,
        )
        self._endpoint: Endpoint | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """What listens; None before `start` and after `stop`."""
        return self._endpoint

    @property
    def failures(self) -> tuple[HealthError, ...]:
        """Why the endpoint does not serve as configured, if it does not."""
        opened = self._endpoint.failures if self._endpoint else ()
        return (*self._failures, *opened)

    def start(self) -> Self:
        """Listen, and be what the process's decorators report to; after the fork, if there is one."""
        set_default(self.manager)
        if self._endpoint is None:
            self._open()
        return self

    def attach(self, context: Context) -> None:
        """Let a context object carry the manager, as `healthcheck_manager`."""
        setattr(context, ATTRIBUTE, self.manager)

    def reset(self) -> None:
        """Forget all items and take over changed options; the listener stays unless it changed.

        Call it where the service reloads, after `conf.mutate_config_files()` or `reload_config_files()`:
        in the main loop, never inside a signal handler.
        """
        self._failures = []
        before, self._settings = self._settings, self._read()
        self.manager.ttl_s = float(self._settings.ttl_s)
        self.manager.reset()
        if self._endpoint is not None and self._settings != before:
            self._endpoint.close()
            self._open()

    def stop(self) -> None:
        """Stop listening; decorators no longer report here."""
        before = set_default(None)
        if before is not self.manager:
            set_default(before)
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None

    def _open(self) -> None:
        settings = self._settings
        self._endpoint = serve(
            self.manager,
            uri=settings.uri,
            ttl_s=settings.ttl_s,
            cache_control=settings.cache_control,
            format=settings.format,
            socket_mode=settings.socket_mode,
            socket_group=settings.socket_group,
            apart=settings.apart,
            required=self._required,
        )

    def _read(self) -> Settings:
        try:
            return Settings.read(self._conf)
        except HealthError as error:
            if self._required:
                raise
            _LOG.error("%s; the service goes on without its health endpoint", error)
            self._failures.append(error)
            return Settings()


def _text(section: cfg.ConfigOpts.GroupAttr, option: str) -> str:
    return str(_value(section, option) or "")


def _number(section: cfg.ConfigOpts.GroupAttr, option: str) -> int | None:
    found = _value(section, option)
    return found if isinstance(found, int) else None


def _value(section: cfg.ConfigOpts.GroupAttr, option: str) -> object:
    try:
        found: object = section[option]
    except ValueError as error:  # the kind of oslo's own error for a value in a file
        raise HealthError(f"[{GROUP}] {option}: {error}") from error
    return found
