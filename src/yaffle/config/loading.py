"""From a file, the environment and flags to settings; every fault is named with where it stands."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_settings import SettingsError

from yaffle.config.private import writer_fault
from yaffle.config.settings import PREFIX, Merged, Settings
from yaffle.errors import ConfigError

_OTHERS: Final = re.compile(
    # of the commands that ask a server, and the mark of what Yaffle itself has started
    r"YAFFLE_(SERVER|TOKEN|USER|PASSWORD|CA_FILE|CLIENT_CERTIFICATE|CLIENT_KEY|CONFIG|NODE_ID|PHYSICAL_ID|OPERATION_ID|JOB"
    # of the test suites
    r"|(SIM|CHAOS|ACCEPTANCE)_\w+"
    # what Kubernetes tells every container of a service that is called yaffle
    r"|SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_\w+)?)"
)
"""Variables that are no settings, and not misspelt either."""


def load(path: Path | None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the settings; `flags` (nested as the file is) win. Raise ConfigError naming each fault."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                # Whoever may write it says who is let in, and which programs are run.
                plain = stat.S_ISREG(found.st_mode)
                fault = writer_fault(path, found, change="go-w") if plain else None
                if fault is not None:
                    raise ConfigError(f"--config {path}: {fault}")
                values = tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"--config {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
    _refuse_unknown_variables(values)
    try:
        settings = Settings(**values)
        if flags:
            settings = Merged(**_merged(settings.model_dump(), flags))
    except SettingsError as error:
        raise ConfigError(_no_json(str(error))) from None
    except ValidationError as error:
        raise ConfigError(
            "\n".join(
                f"{_origin(e['loc'], path)}: {'.'.join(map(str, e['loc']))}: {e['msg']}"
                f" (it is {e['input']!r})"
                for e in error.errors()
            )
        ) from None
    return settings


def _origin(place: tuple[int | str, ...], path: Path | None) -> str:
    """Return where a value came from: its variable, which wins, or the file."""
    variable = PREFIX + "__".join(map(str, place)).upper()
    return variable if variable in os.environ else str(path or "settings")


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


def _refuse_unknown_variables(values: Mapping[str, Any]) -> None:
    """Raise ConfigError naming each variable that looks like a setting and is none."""
    known = set(_variables(Settings))
    said = [str(values), *(v for k, v in os.environ.items() if k.startswith(PREFIX))]
    faults = []
    for name in sorted(os.environ):
        # A driver's `secret_env` may name any variable, also one of ours.
        strange = name.startswith(PREFIX) and not _OTHERS.fullmatch(name)
        if not strange or _is_setting(name, known) or any(name in text for text in said):
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else "; see docs/reference/settings.md"
        faults.append(f"environment: {name} is no setting{hint}")
    if faults:
        raise ConfigError("\n".join(faults))


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


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        result[key] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
