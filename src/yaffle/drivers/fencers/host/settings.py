"""Settings of power devices: which agent, which hosts, whose password, when it may act.

A policy can only say HOST; every address, plug and secret stands here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from yaffle.config.faults import Faults, quoted
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section, read_secret

AGENTS: Final = Path("/usr/sbin")
"""Where Debian's fence-agents are."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_OURS: Final = {
    "action": "Yaffle says itself what is done",
    "option": "it is another word for action",
    "plug": "give it in `hosts`",
    "port": "it is another word for plug: give it in `hosts`; a network port is `ipport`",
    "password": "give `password_file` or `password_env`",
    "passwd": "it is another word for password: give `password_file` or `password_env`",
    "verbose": "it would write secrets into logs",
    "verbose_level": "it would write secrets into logs",
    "debug": "it would write secrets into logs",
    "debug_file": "it would write secrets into logs",
}
"""Options that are not for `options`, and why (names of fence-agents' library)."""
_WHO_ASKS: Final = frozenset({"login", "username"})
"""Options that tell no host from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One table `[drivers.HOST.devices.NAME]`."""

    name: str
    place: str = field(repr=False)
    """Where it stands in the settings, for messages."""
    agent: Path
    """Program of fence-agents: a name in /usr/sbin (`fence_ipmilan`) or an absolute path."""
    hosts: Mapping[str, Mapping[str, str]]
    """Hosts that the device switches, by the backend's names: a table of host → plug, or host →
    options of its own, such as `cmp1 = {ip = "10.0.0.11"}`; a list of one where it switches no other."""
    options: Mapping[str, str] = field(repr=False)
    """The agent's options for all its hosts, named as on its standard input (`man fence_ipmilan`)."""
    password_file: Path | None
    """File with the password, read at each run."""
    password_env: str
    """Variable with the password."""
    secret_files: Mapping[str, Path]
    """Other secrets: option → file with its value, read at each run."""
    timeout_s: float
    """`timeout`: of one run of the agent; the engine's own deadline is mostly shorter."""
    even_while_up: bool
    """Fence although the backend says that the host is up, or cannot tell, or knows no hosts at all.
    Every other guest of the host dies with the node."""

    def secrets(self) -> dict[str, str]:
        """Read every secret, by option; raise ConfigError where one cannot be had."""
        found, faults = {}, Faults()
        for name, path in self.secret_files.items():
            with faults.gather():
                place = f"{self.place}.secret_files.{name}"
                found[name] = _text(read_secret(path, place), place)
        with faults.gather():
            if self.password_file is not None:
                place = f"{self.place}.password_file"
                found["password"] = _text(read_secret(self.password_file, place), place)
            elif self.password_env:
                if self.password_env not in os.environ:
                    raise ConfigError(f"{self.place}.password_env: there is no such variable")
                found["password"] = os.environ[self.password_env]
        faults.settle()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Section `drivers.HOST`."""

    devices: Mapping[str, Device]

    @classmethod
    def read(cls, section: Section) -> HostSettings:
        """Raise ConfigError for what is missing, wrong, unknown or said twice."""
        devices = {name: _device(name, part) for name, part in section.sections("devices").items()}
        section.finish()
        faults = Faults()
        owners: dict[str, str] = {}
        for device in devices.values():
            for host in device.hosts:
                owner = owners.setdefault(host, device.name)
                with faults.gather():
                    if owner != device.name:
                        raise ConfigError(
                            f"{device.place}.hosts: {host!r} is in device {owner!r} as well;"
                            " one device switches a host"
                        )
        with faults.gather():
            _check_apart(devices.values())
        faults.settle()
        return cls(devices=devices)

    def by_host(self) -> Mapping[str, Device]:
        """Return the device of each host."""
        return {host: device for device in self.devices.values() for host in device.hosts}


def _check_apart(devices: Iterable[Device]) -> None:
    """Raise ConfigError where an agent would be asked the same of two hosts: one off is not two."""
    asked: dict[tuple[Path, frozenset[tuple[str, str]]], str] = {}
    for device in devices:
        for host, own in device.hosts.items():
            options = {**device.options, **own}
            naming = frozenset((k, v) for k, v in options.items() if k not in _WHO_ASKS)
            other = asked.setdefault((device.agent, naming), host)
            if other != host:
                raise ConfigError(
                    f"{device.place}.hosts: the agent would be asked the same of {other} and of {host},"
                    " and what it says of one be believed of the other; give each host a plug,"
                    f' `hosts = {{{other} = "PLUG", {host} = "PLUG"}}`, or options of its own,'
                    f' `{host} = {{ip = "ADDRESS"}}`'
                )


def _device(name: str, section: Section) -> Device:
    password_env = section.text("password_env", "")
    device = Device(
        name=name,
        place=section.where,
        agent=section.attempt("agent", lambda: _agent(section), AGENTS),
        hosts=section.attempt("hosts", lambda: _hosts(section), {}),
        options=section.attempt(
            "options", lambda: _options(section.table("options"), section.place("options")), {}
        ),
        password_file=section.path("password_file"),
        password_env=password_env,
        secret_files=section.attempt("secret_files", lambda: _secret_files(section), {}),
        timeout_s=section.number("timeout", 20, low=0.5, high=300),
        even_while_up=section.flag("even_while_up", default=False),
    )
    if device.password_file is not None and password_env:
        section.wrong("password_file", "or password_env, not both")
    # Asked for now, so that a missing file is found at a start and not at three in the morning.
    section.attempt("secrets", device.secrets, dict[str, str]())
    section.finish()
    return device


def _agent(section: Section) -> Path:
    word, place = section.text("agent"), section.place("agent")
    path = Path(word) if "/" in word else AGENTS / word
    if not path.is_absolute():
        raise ConfigError(f"{place} = {word!r}: give a name in {AGENTS} or an absolute path")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ConfigError(
            f"{place} = {word!r}: {path} is no program here; install fence-agents, or give the"
            " absolute path of your own"
        )
    return path


def _hosts(section: Section) -> Mapping[str, Mapping[str, str]]:
    value, place = section.raw("hosts"), section.place("hosts")
    if isinstance(value, list | tuple):
        if len(set(map(str, value))) != len(value):
            raise ConfigError(f"{place} names a host twice")
        value = {name: "" if isinstance(name, str) else None for name in value}
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{place} must be a list of hosts, or a table of host → plug")
    found, faults = {}, Faults()
    for host, own in value.items():
        with faults.gather():
            if not host or not str(host).isprintable():
                raise ConfigError(f"{place}: {host!r} is not a host's name")
            found[str(host)] = _own(own, f"{place}.{quoted(str(host))}")
    faults.settle()
    return MappingProxyType(found)


def _own(value: object, place: str) -> Mapping[str, str]:
    """Return the options of one host: its plug, or whatever is said of it alone."""
    if isinstance(value, str):
        return {"plug": _value(value, place)} if value else {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place} must be a plug (a text) or a table of options")
    plug = {"plug": _value(value["plug"], f"{place}.plug")} if "plug" in value else {}
    return plug | _options({k: v for k, v in value.items() if k != "plug"}, place)


def _options(table: Mapping[str, object], place: str) -> dict[str, str]:
    found, faults = {}, Faults()
    for name, value in table.items():
        with faults.gather():
            _check_name(name, place)
            found[name] = _value(value, f"{place}.{name}")
    faults.settle()
    return found


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{place}: {name!r} is not the name of an agent's option")
    if name in _OURS:
        raise ConfigError(f"{place}.{name} is not for the options: {_OURS[name]}")


def _value(value: object, place: str) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"{place} must be a number, true, false or a text of one line")
    return value


def _secret_files(section: Section) -> Mapping[str, Path]:
    found, faults, place = {}, Faults(), section.place("secret_files")
    for name, path in section.text_table("secret_files").items():
        with faults.gather():
            _check_name(name, place)
            if not Path(path).is_absolute():
                raise ConfigError(f"{place}.{name} must be an absolute path")
            found[name] = Path(path)
    faults.settle()
    return found


def _text(secret: bytes, place: str) -> str:
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: it is not UTF-8 text") from None
    if not text.isprintable():
        raise ConfigError(f"{place}: it must be one printable line")
    return text
