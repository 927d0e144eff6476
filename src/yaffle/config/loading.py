"""Loading of settings: file, environment and flags; every fault is named with where it stands."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_settings import SettingsError

from yaffle.config.faults import PREFIX, Origin, Place, line_of, lines_of, meant
from yaffle.config.private import writer_fault
from yaffle.config.settings import Merged, Settings
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_OTHERS: Final = re.compile(
    # of the commands that ask a server, and the mark of what Yaffle itself has started
    r"YAFFLE_(SERVER|OS_CLOUD|TOKEN|USER|PASSWORD|CA_FILE|CLIENT_CERTIFICATE|CLIENT_KEY|CONFIG"
    r"|NODE_ID|PHYSICAL_ID|OPERATION_ID|JOB"
    # of the test suites
    r"|(SIM|CHAOS|ACCEPTANCE)_\w+"
    # what Kubernetes tells every container of a service that is called yaffle
    r"|SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_\w+)?)"
)
"""Variables that are no settings, and not misspelt either."""


class Unusable(ConfigError):
    """Settings that are wrong, with what can still be said of the others."""

    def __init__(self, problems: Sequence[str], rest: Settings | None, broken: Set[str]) -> None:
        super().__init__(problems)
        self.rest = rest
        """The settings with defaults in place of what is `broken`: only to look for more that is wrong.
        None where there are none, because a variable is wrong."""
        self.broken = broken
        """The sections that something is wrong with."""


def load(path: Path | None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the settings; `flags` (nested as the file is) win. Raise ConfigError naming each fault."""
    text = "" if path is None else _read(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    origin, flags = Origin(path, lines_of(text)), flags or {}
    faults, settings, broken = _unknown_variables(values), None, set[str]()
    try:
        settings = _built(values, flags, origin)
    except SettingsError as error:
        faults.append(_no_json(str(error)))
    except ValidationError as error:
        found = sorted(error.errors(), key=lambda e: line_of(e["loc"], origin.lines))
        broken = {str(e["loc"][0]) for e in found if e["loc"]}
        # A variable that is no setting has been told already.
        faults += [_told(e, origin) for e in found if not (_is_extra(e) and _of_variable(e))]
    if faults or settings is None:
        raise Unusable(faults, settings or _rest(values, flags, origin, broken), broken)
    return settings


def _built(values: Mapping[str, Any], flags: Mapping[str, Any], origin: Origin) -> Settings:
    settings = Settings(**values)
    if flags:
        settings = Merged(**_merged(settings.model_dump(), flags))
    return settings.read_from(origin)


def _rest(
    values: Mapping[str, Any], flags: Mapping[str, Any], origin: Origin, broken: Set[str]
) -> Settings | None:
    whole = [{k: v for k, v in given.items() if k not in broken} for given in (values, flags)]
    try:
        return _built(whole[0], whole[1], origin)
    except (SettingsError, ValidationError):
        return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            # Whoever may write it says who is let in, and which programs are run.
            plain = stat.S_ISREG(found.st_mode)
            fault = writer_fault(path, found, change="go-w") if plain else None
            if fault is not None:
                raise ConfigError(f"--config {path}: {fault}")
            return file.read().decode()
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None


# --- faults --------------------------------------------------------------------------------------


def _told(fault: ErrorDetails, origin: Origin) -> str:
    """Return a fault with its place, and with what was meant where that can be guessed."""
    place, name = fault["loc"], ".".join(map(str, fault["loc"]))
    what = f"{fault['msg'].removeprefix('Value error, ')} (it is {fault['input']!r})"
    if _is_extra(fault):
        what = f"there is no such setting{_meant(str(place[-1]), _known_at(place[:-1]))}"
    if variable := _of_variable(fault):
        return f"{variable}: {name}: {what}"
    line = line_of(place, origin.lines)
    return f"{origin.path or 'settings'}{f':{line}' if line else ''}: {name}: {what}"


def _is_extra(fault: ErrorDetails) -> bool:
    return fault["type"] == "extra_forbidden"


def _of_variable(fault: ErrorDetails) -> str:
    """Return the variable that a value came from, which wins over the file; empty for none."""
    variable = PREFIX + "__".join(map(str, fault["loc"])).upper()
    return variable if variable in os.environ else ""


def _meant(word: str, known: Iterable[str]) -> str:
    return meant(word, known, otherwise="see docs/reference/settings.md")


def _known_at(place: Place) -> Iterable[str]:
    """Return the names of the settings of a section."""
    model: type[BaseModel] = Settings
    for part in place:
        field = model.model_fields.get(str(part))
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        inner = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        if not inner:
            return ()
        model = inner[0]
    return model.model_fields


def _no_json(error: str) -> str:
    """Return which variables hold no JSON where JSON is needed; the library names only a field."""
    field = re.search(r'field "(\w+)"', error)
    start = PREFIX + (field[1].upper() if field else "")
    broken = [name for name in sorted(os.environ) if name.startswith(start) and not _is_json(name)]
    return (
        f"environment: {', '.join(broken) or start}: it is no JSON; a section or a list is JSON,"
        " a single setting YAFFLE_SECTION__KEY"
    )


def _is_json(variable: str) -> bool:
    try:
        json.loads(os.environ[variable])
    except ValueError:
        return False
    return True


# --- the environment -----------------------------------------------------------------------------


def _unknown_variables(values: Mapping[str, Any]) -> list[str]:
    """Return a fault for each variable that looks like a setting and is none."""
    known = set(_variables(Settings))
    said = [str(values), *(v for k, v in os.environ.items() if k.startswith(PREFIX))]
    faults = []
    for name in sorted(os.environ):
        # A driver's `secret_env` may name any variable, also one of ours.
        strange = name.startswith(PREFIX) and not _OTHERS.fullmatch(name)
        if not strange or _is_setting(name, known) or any(name in text for text in said):
            continue
        faults.append(f"environment: {name} is no setting{_meant(name, known)}")
    return faults


def _is_setting(name: str, known: set[str]) -> bool:
    """Whether a variable is a setting, a whole section as JSON, or a driver's own."""
    free = name.startswith((f"{PREFIX}NOTIFIERS__", f"{PREFIX}DRIVERS__"))
    return free or name in known


def _variables(model: type[BaseModel], start: str = PREFIX) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield start + name.upper()
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _variables(kind, f"{start}{name.upper()}__")


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        result[key] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
