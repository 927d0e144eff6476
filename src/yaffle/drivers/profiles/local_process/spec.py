"""The properties of a local process: what a user may write, every fault named, expansions filled in."""

from __future__ import annotations

import ipaddress
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from yaffle.errors import InvalidSpec

EXPANSIONS: Final = (
    "port",
    "nodename",
    "node_id",
    "physical_id",
    "index",
    "cluster_name",
    "node_ip",
    "state_dir",
)
# Below the range that Linux hands out to outgoing connections.
DEFAULT_PORTS: Final = (20000, 29999)
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Properties after parsing; texts still hold their expansions."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    port: int | str | None
    """A number, "auto", or None for a node that needs none."""
    port_range: tuple[int, int]
    node_ip: str
    log_file: str | None
    stop_signal: str
    stop_timeout: float
    start_timeout: float

    @property
    def signal(self) -> signal.Signals:
        """The signal that asks the node to end."""
        return signal.Signals[f"SIG{self.stop_signal}"]


def expand(text: str, values: Mapping[str, str]) -> str:
    """Fill in `{name}`; `{{` and `}}` stand for braces. Raises InvalidSpec."""

    def one(match: re.Match[str]) -> str:
        whole = match.group(0)
        if whole in ("{{", "}}"):
            return whole[0]
        name = match.group(1)
        if name is None:
            raise InvalidSpec(f"lone {whole!r} in {text!r}: write {whole * 2!r} for a brace")
        if name not in values:
            known = ", ".join(f"{{{known}}}" for known in EXPANSIONS)
            raise InvalidSpec(f"unknown expansion {whole!r} in {text!r}; known: {known}")
        return values[name]

    return _TOKEN.sub(one, text)


def validate(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return every property with its default filled in; raises InvalidSpec naming every fault."""
    spec = parse(given)
    return {
        "command": list(spec.command),
        "env": dict(spec.env),
        "cwd": spec.cwd,
        "port": spec.port,
        "port_range": list(spec.port_range),
        "node_ip": spec.node_ip,
        "log_file": spec.log_file,
        "stop_signal": spec.stop_signal,
        "stop_timeout": spec.stop_timeout,
        "start_timeout": spec.start_timeout,
    }


def parse(given: Mapping[str, object]) -> Spec:
    """Parse the properties; raises InvalidSpec naming every fault."""
    faults = [
        f"{name}: unknown property; known: {', '.join(_PARSERS)}"
        for name in given
        if name not in _PARSERS
    ]
    values: dict[str, object] = {}
    for name, (default, parser) in _PARSERS.items():
        try:
            value = given.get(name)
            values[name] = default if value is None and name != "command" else parser(value)
        except InvalidSpec as error:
            faults += [f"{name}: {problem}" for problem in error.problems]
    if faults:
        raise InvalidSpec(faults)
    if values["port"] is None and _uses_port(values):
        values["port"] = "auto"
    # Each value went through the parser of its name.
    return Spec(**values)  # type: ignore[arg-type]


def _uses_port(values: Mapping[str, object]) -> bool:
    command, env = values["command"], values["env"]
    texts: list[object] = [values["cwd"], values["log_file"]]
    texts += command if isinstance(command, tuple) else ()
    texts += env.values() if isinstance(env, Mapping) else ()
    return any("port" in _names(text) for text in texts if isinstance(text, str))


def _names(text: str) -> list[str]:
    return [match.group(1) for match in _TOKEN.finditer(text) if match.group(1)]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidSpec(f"must be a non-empty text without NUL, not {value!r}")
    expand(value, dict.fromkeys(EXPANSIONS, ""))
    return value


def _command(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        raise InvalidSpec('must be a non-empty list of texts, e.g. ["python3", "app.py"]')
    faults: list[str] = []
    for place, part in enumerate(value):
        try:
            # An empty argument is an argument; an empty program is not.
            if part != "" or place == 0:
                _text(part)
        except InvalidSpec as error:
            faults += [f"[{place}]: {problem}" for problem in error.problems]
    if faults:
        raise InvalidSpec(faults)
    return tuple(str(part) for part in value)


def _env(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidSpec("must map names to texts")
    faults: list[str] = []
    result: dict[str, str] = {}
    for name, content in value.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            faults.append(f"{name!r} is not a variable name")
        elif name.startswith("YAFFLE_"):
            faults.append(f"{name}: names that start with YAFFLE_ are reserved")
        elif isinstance(content, bool) or not isinstance(content, str | int | float):
            faults.append(f"{name}: must be a text or a number, not {content!r}")
        else:
            try:
                result[name] = _text(str(content)) if content != "" else ""
            except InvalidSpec as error:
                faults += [f"{name}: {problem}" for problem in error.problems]
    if faults:
        raise InvalidSpec(faults)
    return result


def _path(value: object) -> str:
    text = _text(value)
    # The engine's own directory is nobody's business, and differs from engine to engine.
    if not text.startswith(("/", "{state_dir}")):
        raise InvalidSpec(f"must be an absolute path or start with {{state_dir}}, not {text!r}")
    return text


def _port(value: object) -> int | str:
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise InvalidSpec(f'must be 1-65535 or "auto", not {value!r}')
    return value


def _port_range(value: object) -> tuple[int, int]:
    parts: list[object] = list(value) if isinstance(value, list | tuple) else []
    if isinstance(value, str) and re.fullmatch(r"\d{1,5}-\d{1,5}", value):
        parts = [int(part) for part in value.split("-")]
    match parts:
        case [int(low), int(high)] if 1 <= low <= high <= 65535:
            return low, high
        case _:
            raise InvalidSpec(f'must be like "20000-29999", from low to high, not {value!r}')


def _node_ip(value: object) -> str:
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError as error:
        raise InvalidSpec(f"must be an IP address: {error}") from error


def _signal(value: object) -> str:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if isinstance(value, int) and value in set(signal.Signals):
        name = signal.Signals(value).name.removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise InvalidSpec(f"must be a signal such as TERM or INT, not {value!r}")
    return name


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise InvalidSpec(f"must be more than 0 and at most 3600 seconds, not {value!r}")
    return float(value)


_PARSERS: Final[Mapping[str, tuple[object, Callable[[object], object]]]] = {
    "command": (None, _command),
    "env": ({}, _env),
    "cwd": (None, _path),
    "port": (None, _port),
    "port_range": (DEFAULT_PORTS, _port_range),
    "node_ip": ("127.0.0.1", _node_ip),
    "log_file": (None, _path),
    "stop_signal": ("TERM", _signal),
    "stop_timeout": (10.0, _seconds),
    "start_timeout": (10.0, _seconds),
}
