"""The properties of a stack: what a user may write in Senlin's words, every fault named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from yaffle.errors import InvalidSpec

TIMEOUT_MAX: Final = 60 * 24 * 30
"""Minutes."""


def validate(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the properties with defaults filled in; raise InvalidSpec naming every fault.

    Whether the template is one is for Heat to say: it does when the stack is made.
    """
    known = ", ".join(PARSERS)
    faults = [f"{name}: unknown property; known: {known}" for name in given if name not in PARSERS]
    values: dict[str, object] = {}
    for name, parser in PARSERS.items():
        value = given.get(name, DEFAULTS.get(name))
        if value is None:
            continue
        try:
            values[name] = parser(value)
        except InvalidSpec as error:
            faults += [f"{name}: {problem}" for problem in error.problems]
    if (given.get("template") is None) == (given.get("template_url") is None):
        faults.append("template: exactly one of template and template_url is required")
    if faults:
        raise InvalidSpec(faults)
    return values


def _template(value: object) -> dict[str, object]:
    found = _map(value)
    if not any(key.lower() in _VERSIONS for key in found):
        raise InvalidSpec("is no template: it has no heat_template_version")
    return found


_VERSIONS: Final = frozenset(
    {"heat_template_version", "heattemplateformatversion", "awstemplateformatversion"}
)


def _map(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidSpec("must map names to values")
    return dict(value)


def _files(value: object) -> dict[str, object]:
    found = _map(value)
    wrong = [name for name, text in found.items() if not isinstance(text, str)]
    if wrong:
        raise InvalidSpec([f"{name} must be a text" for name in wrong])
    return found


def _context(value: object) -> dict[str, object]:
    if _map(value):
        raise InvalidSpec("is not supported: the region is that of the cloud in the settings")
    return {}


def _url(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise InvalidSpec(f"must be an http:// or https:// address, not {value!r}")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise InvalidSpec(f"must be true or false, not {value!r}")
    return value


def _timeout(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= TIMEOUT_MAX:
        raise InvalidSpec(f"must be a number of minutes from 1 to {TIMEOUT_MAX}, not {value!r}")
    return value


DEFAULTS: Final[Mapping[str, object]] = {"disable_rollback": True}
PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "context": _context,
    "template": _template,
    "template_url": _url,
    "parameters": _map,
    "files": _files,
    "timeout": _timeout,
    "disable_rollback": _flag,
    "environment": _map,
}
